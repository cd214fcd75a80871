#!/usr/bin/env python3
"""visdb_check.py DB... : run the vis.db conformance checklist. Exit 1 if any check fails."""
import sqlite3, sys, os, json
NODE=[('id','TEXT',0,1),('graph_id','TEXT',1,0),('node_order','INTEGER',1,0),('node_name','TEXT',1,0),('node_type','TEXT',1,0),('up_node','TEXT',0,0),('sub_nodes','TEXT',0,0),('precision_index','INTEGER',0,0),('overflow_level','TEXT',0,0),('micro_step_id','INTEGER',1,0),('matched_node_link','TEXT',0,0),('stack_id','TEXT',0,0),('parallel_merge_info','TEXT',0,0),('matched_distributed','TEXT',0,0),('modified','INTEGER',1,0),('input_data','TEXT',0,0),('output_data','TEXT',0,0),('data_source','TEXT',0,0),('dump_data_dir','TEXT',0,0),('step','INTEGER',1,0),('rank','INTEGER',1,0),('is_distributed','INTEGER',0,0)]
CONF=[('id','TEXT',0,1),('graph_type','TEXT',1,0),('task','TEXT',0,0),('tool_tip','TEXT',0,0),('micro_steps','INTEGER',0,0),('overflow_check','INTEGER',0,0),('node_colors','TEXT',1,0),('rank_list','TEXT',1,0),('step_list','TEXT',1,0)]
STACK=[('id','TEXT',0,1),('stack_info','TEXT',0,0)]
IDX={'index1':'step,rank,data_source,up_node,node_order','index2':'step,rank,data_source,node_name','index3':'step,rank,data_source,node_order','index4':'step,rank,node_order','index5':'step,rank,micro_step_id,node_order','index6':'step,rank,modified,matched_node_link','index7':'is_distributed'}
ZERO={ # id: query that must return 0
'N01':"SELECT count(*) FROM tb_nodes WHERE id <> data_source||'_'||step||'_'||rank||'_'||node_name OR graph_id <> data_source||'_'||step||'_'||rank",
'N02':"SELECT count(*) FROM (SELECT 1 FROM tb_nodes GROUP BY data_source,step,rank HAVING sum(up_node='')<>1 OR sum(up_node IS NULL)<>0)",
'N03':"SELECT count(*) FROM (SELECT 1 FROM tb_nodes GROUP BY data_source,step,rank HAVING min(node_order)<>0 OR max(node_order)<>count(*)-1 OR count(DISTINCT node_order)<>count(*))",
'N04':"SELECT count(*) FROM tb_nodes n WHERE up_node<>'' AND NOT EXISTS (SELECT 1 FROM tb_nodes p WHERE p.step=n.step AND p.rank=n.rank AND p.data_source=n.data_source AND p.node_name=n.up_node AND p.node_order>n.node_order)",
'N05':"SELECT count(*) FROM tb_nodes WHERE typeof(node_type)<>'text' OR node_type NOT IN ('0','1','9')",
'N06':"SELECT count(*) FROM tb_nodes WHERE typeof(sub_nodes)<>'text' OR NOT (sub_nodes='' OR (json_valid(sub_nodes) AND json_type(sub_nodes)='array' AND json_array_length(sub_nodes)>0))",
'N08':"SELECT count(*) FROM tb_nodes WHERE typeof(precision_index) NOT IN ('null','integer','real') OR precision_index<0 OR precision_index>1 OR (data_source='Bench' AND precision_index IS NOT NULL) OR (precision_index IS NOT NULL AND (SELECT graph_type FROM tb_config)='build')",
'N09':"SELECT count(*) FROM tb_nodes WHERE overflow_level IS NOT NULL AND (overflow_level NOT IN ('medium','high','critical') OR (SELECT overflow_check FROM tb_config)=0)",
'N10':"SELECT count(*) FROM tb_nodes WHERE typeof(micro_step_id)<>'integer' OR micro_step_id<0 OR micro_step_id>=(SELECT micro_steps FROM tb_config)",
'N11':"SELECT count(*) FROM tb_nodes WHERE typeof(matched_node_link)<>'text' OR NOT json_valid(matched_node_link) OR json_type(matched_node_link)<>'array' OR ((SELECT graph_type FROM tb_config)='build' AND matched_node_link<>'[]')",
'N12':"SELECT count(*) FROM tb_nodes n WHERE matched_node_link<>'[]' AND NOT EXISTS (SELECT 1 FROM tb_nodes m WHERE m.step=n.step AND m.rank=n.rank AND m.data_source<>n.data_source AND m.node_name=json_extract(n.matched_node_link,'$[#-1]') AND json_extract(m.matched_node_link,'$[#-1]')=n.node_name)",
'N13':"SELECT count(*) FROM tb_nodes n WHERE NOT EXISTS (SELECT 1 FROM tb_stack s WHERE s.id=n.stack_id)",
'N14':"SELECT count(*) FROM tb_stack WHERE NOT json_valid(stack_info) OR json_type(stack_info)<>'array'",
'N15':"SELECT count(*) FROM tb_nodes WHERE typeof(parallel_merge_info)<>'text' OR NOT (parallel_merge_info='' OR (json_valid(parallel_merge_info) AND json_type(parallel_merge_info)='array'))",
'N16':"SELECT count(*) FROM tb_nodes WHERE typeof(matched_distributed)<>'text' OR NOT json_valid(matched_distributed) OR json_type(matched_distributed) NOT IN ('object','array') OR (is_distributed=0 AND matched_distributed<>'{}')",
'N17':"SELECT count(*) FROM tb_nodes WHERE modified<>0",
'N18':"SELECT count(*) FROM tb_nodes WHERE NOT json_valid(input_data) OR json_type(input_data)<>'object' OR NOT json_valid(output_data) OR json_type(output_data)<>'object'",
'N19':"SELECT count(*) FROM (SELECT input_data d FROM tb_nodes UNION ALL SELECT output_data FROM tb_nodes) t, json_each(t.d) p WHERE p.type<>'object'",
'N20':"SELECT count(*) FROM (SELECT input_data d FROM tb_nodes UNION ALL SELECT output_data FROM tb_nodes) t, json_each(t.d) p, json_each(p.value) v WHERE v.type<>'text'",
'N21':"SELECT count(*) FROM tb_nodes WHERE is_distributed IS NOT (node_name GLOB 'Distributed*') OR data_source NOT IN ('NPU','Bench') OR typeof(step)<>'integer' OR typeof(rank)<>'integer'",
'N22':"SELECT count(*) FROM tb_nodes WHERE dump_data_dir IS NULL AND (SELECT task FROM tb_config)='all'",
'N23':"SELECT count(*) FROM (SELECT step,rank FROM tb_nodes GROUP BY step,rank HAVING count(DISTINCT data_source)<>(SELECT CASE graph_type WHEN 'compare' THEN 2 ELSE 1 END FROM tb_config))",
'N24':"SELECT count(*) FROM tb_nodes n, json_tree(n.matched_distributed) t WHERE n.is_distributed=1 AND t.path LIKE '%nodes_info' AND t.type='array' AND NOT EXISTS (SELECT 1 FROM tb_nodes m WHERE m.step=n.step AND m.rank=CAST(t.key AS INTEGER) AND m.data_source=n.data_source AND m.node_name=json_extract(t.value,'$[1]'))",
'C01':"SELECT abs(count(*)-1) + sum(id<>'1' OR typeof(id)<>'text') FROM tb_config",
'C02':"SELECT count(*) FROM tb_config WHERE graph_type NOT IN ('build','compare') OR (graph_type='build' AND (task<>'' OR tool_tip IS NOT NULL OR node_colors<>'null')) OR (graph_type='compare' AND (task NOT IN ('summary','md5','all','structure') OR NOT json_valid(tool_tip) OR json_type(tool_tip)<>'object' OR json_type(node_colors)<>'object'))",
'C03':"SELECT count(*) FROM tb_config WHERE typeof(micro_steps)<>'integer' OR micro_steps<1 OR overflow_check NOT IN (0,1)",
'C04':"SELECT count(*) FROM tb_config c WHERE (SELECT json_group_array(rank) FROM (SELECT DISTINCT rank FROM tb_nodes ORDER BY rank)) <> json(c.rank_list)",
'C05':"SELECT count(*) FROM tb_config c WHERE (SELECT json_group_array(step) FROM (SELECT DISTINCT step FROM tb_nodes ORDER BY step)) <> json(c.step_list)",
'C06':"SELECT count(*) FROM tb_config c, json_each(c.node_colors) k WHERE c.node_colors<>'null' AND (k.key NOT GLOB '#[0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f][0-9A-Fa-f]' OR json_type(k.value,'$.value') IS NULL)",
}
def run(db):
    bad=[]
    c=sqlite3.connect(f'file:{db}?mode=ro',uri=True)
    for t,cols in (('tb_nodes',NODE),('tb_config',CONF),('tb_stack',STACK)):
        got=[(r[1],r[2],r[3],r[5]) for r in c.execute(f'pragma table_info({t})')]
        if got!=cols: bad.append(('S01',t))
    got={r[0]:','.join(x[2] for x in c.execute(f'pragma index_info({r[0]})')) for r in c.execute("select name from sqlite_master where type='index' and sql is not null and tbl_name='tb_nodes'")}
    for k,v in IDX.items():
        if got.get(k)!=v: bad.append(('S02',k))
    if c.execute('pragma integrity_check').fetchone()[0]!='ok': bad.append(('S03','integrity'))
    if not os.path.basename(db).endswith('.vis.db'): bad.append(('S04','name'))
    if os.path.exists(db+'-journal') or (os.path.exists(db+'-wal') and os.path.getsize(db+'-wal')): bad.append(('S05','journal/wal left'))
    for p in (db, os.path.dirname(os.path.abspath(db))):
        if os.stat(p).st_mode & 0o022: bad.append(('S06','group/other writable '+p))
    if os.path.islink(db): bad.append(('S07','symlink'))
    for k,q in ZERO.items():
        try: n=c.execute(q).fetchone()[0]
        except Exception as e: n=f'{type(e).__name__} {e}'
        if n!=0: bad.append((k,n))
    kids={}
    for k in c.execute("select data_source,step,rank,up_node,node_name from tb_nodes where up_node<>'' order by node_order"): kids.setdefault(k[:4],[]).append(k[4])
    for r in c.execute("select data_source,step,rank,node_name,sub_nodes from tb_nodes"):
        try: have=json.loads(r[4]) if r[4] else []
        except ValueError: have=None
        if have!=kids.get(r[:4],[]): bad.append(('N07',r[3])); break
    c.close(); return bad
if __name__ == '__main__':
    rc=0
    for db in sys.argv[1:]:
        b=run(db); print('OK  ' if not b else 'FAIL', db, b or ''); rc|=bool(b)
    sys.exit(rc)
