#!/usr/bin/env python3
"""Run msvis-mpi on golden cases and compare what it writes with the expected result.

usage: run_golden.py --binary build/msvis-mpi [--np 1] [--jobs 1] [--extra=--compat=reference] [--root DIR] [--timeout 120]
                     [--keep DIR] [-v] [GROUP | GROUP/CASE ...]

A case is a folder  <root>/<group>/<case>/  with  target/, optionally golden/, optionally args.txt (further flags, one line, paths
relative to the case folder) and one of
    expected.vis.db      compared with visdb_diff.py
    expected_json/       the tree that --file_type json must write, compared as JSON (numbers with relative tolerance 1e-6;
                           of merge explanations what they state, as visdb_diff.py does)
    expected_failure.txt   the run must end with exit code 1 or 2 within the time; no result file may be left
    reason.txt             an input that stops the reference: the run must end in time with exit code 0 (one file), 1 (no file) or 3;
                           the text says what is right (check that in tests of your own)
A successful case must end with exit code 0.  With expected_batch_links.json beside it and without --compat=reference, the links of
the batch_isend_irecv nodes are compared with that file instead (the reference does not write them).
Exit code: 0 all equal, 1 some differ, 2 wrong usage.  Only the standard library is needed.
"""
import visdb_check
import visdb_diff
import argparse, json, math, os, shlex, shutil, sqlite3, subprocess, sys, tempfile, time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
# metrics that do not depend on the order of summation: their text must be identical
IDENTICAL = ("MaxAbsErr", "MaxRelativeErr", "One Thousandth Err Ratio", "Five Thousandths Err Ratio")


def same_json(a, b, path=""):
    if isinstance(a, bool) or isinstance(b, bool) or type(a) is str or type(b) is str or a is None or b is None:
        return None if a == b else path
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        ok = a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= 1e-6 * max(abs(a), abs(b))
        return None if ok else path
    if type(a) is not type(b) or len(a) != len(b):
        return path or "/"
    keys = a.keys() if isinstance(a, dict) else range(len(a))
    for k in keys:
        if isinstance(a, dict) and k not in b:
            return f"{path}/{k}"
        if k == "parallel_merge_info":  # what the lines state, not their wording
            if [visdb_diff.facts(line) for line in a[k]] != [visdb_diff.facts(line) for line in b[k]]:
                return f"{path}/{k}"
            continue
        bad = same_json(a[k], b[k], f"{path}/{k}")
        if bad:
            return bad
    return None


def compare_trees(want, have):
    files = sorted(os.path.relpath(os.path.join(d, f), want) for d, _, fs in os.walk(want) for f in fs)
    for f in files:
        other = os.path.join(have, f)
        if not os.path.exists(other):
            return f"{f}: not written"
        x, y = (json.load(open(os.path.join(r, f))) for r in (want, have))
        if f.endswith("dump.json"):
            for z in (x, y):
                z.pop("dump_data_dir", None)
        bad = same_json(x, y)
        if bad:
            return f"{f}: differs at {bad}"
    return None


def batch_links(want, db):
    """Links of batch_isend_irecv nodes, which only the default mode writes."""
    con = sqlite3.connect(f"file:{db}?mode=ro", uri=True)
    for source, ranks in want.items():
        for rank, nodes in ranks.items():
            for name, w in nodes.items():
                row = con.execute("select matched_distributed from tb_nodes where data_source=? and rank=? and node_name=?", (source, int(rank), name)).fetchone()
                if row is None or json.loads(row[0]) != w["matched_distributed"]:
                    return f"{source} rank {rank} {name}: link is {row and row[0]}"
    return None


def conformance(a, args, db):
    """Breaches of the rules for result files. The reference itself breaks some, and several target nodes may share a partner."""
    exempt = set()
    if "compat=reference" in a.extra:
        exempt |= {"N10", "N22"}
    if "-fm" in args or "-lm" in args:
        exempt.add("N12")
    bad = [b for b in visdb_check.run(db) if b[0] not in exempt]
    return f"breaks the rules for result files: {bad}" if bad else None


def run_case(a, case):
    out = tempfile.mkdtemp(prefix="golden-", dir=a.keep)
    binary = os.path.abspath(a.binary)
    cmd = [binary] if a.np == 0 else ["mpirun", "--oversubscribe", "-n", str(a.np), binary]
    cmd += ["-tp", "target"] + (["-gp", "golden"] if os.path.isdir(os.path.join(case, "golden")) else []) + ["-o", out]
    argf = os.path.join(case, "args.txt")
    args = shlex.split(open(argf).read()) if os.path.exists(argf) else []
    cmd += args
    cmd += shlex.split(a.extra)
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1")
    t = time.time()
    try:
        p = subprocess.run(cmd, cwd=case, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=a.timeout)
        log, rc = p.stdout.decode(errors="replace"), p.returncode
    except subprocess.TimeoutExpired as e:
        log, rc = (e.stdout or b"").decode(errors="replace") + f"\nno end in {a.timeout} s", 124
    took = time.time() - t
    dbs = [f for f in os.listdir(out) if f.endswith(".vis.db")]
    why = None
    batch = os.path.join(case, "expected_batch_links.json")
    batch = json.load(open(batch)) if os.path.exists(batch) else None
    if os.path.exists(os.path.join(case, "expected_failure.txt")):
        if rc not in (1, 2):
            why = f"exit {rc}, but 1 or 2 is expected"
        elif dbs:
            why = "a result file was left by a failed run"
    elif os.path.exists(os.path.join(case, "reason.txt")):
        if rc not in (0, 1, 3) or (rc == 0 and len(dbs) != 1) or (rc == 1 and dbs):
            why = f"exit {rc}, {len(dbs)} result files; " + open(os.path.join(case, "reason.txt")).read().strip()
    elif os.path.isdir(os.path.join(case, "expected_json")):
        why = f"exit {rc}" if rc else None if a.conformance else compare_trees(os.path.join(case, "expected_json"), out)
    elif rc or len(dbs) != 1:
        why = f"exit {rc}, {len(dbs)} result files"
    elif a.conformance:
        pass
    elif batch and "compat=reference" not in a.extra:
        why = batch_links(batch, os.path.join(out, dbs[0]))
    else:
        exact = [w for k in IDENTICAL for w in ("--exact-key", k)]
        d = subprocess.run([sys.executable, os.path.join(HERE, "visdb_diff.py"), os.path.join(case, "expected.vis.db"),
                            os.path.join(out, dbs[0])] + exact + shlex.split(a.diff_args), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if d.returncode:
            why = d.stdout.decode(errors="replace").strip()
    if not why and dbs:
        why = conformance(a, args, os.path.join(out, dbs[0]))
    if not a.keep:
        shutil.rmtree(out, ignore_errors=True)
    return why, took, log


def say(*a):
    print(*a, flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--binary", required=True)
    p.add_argument("--np", type=int, default=1, help="MPI processes; 0: without mpirun")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--extra", default="")
    p.add_argument("--diff-args", default="", help="further arguments of visdb_diff.py")
    p.add_argument("--root", default=os.path.join(HERE, "..", "..", "testdata", "golden"))
    p.add_argument("--timeout", type=float, default=120)
    p.add_argument("--keep")
    p.add_argument("--conformance", action="store_true", help="do not compare with the expected result, only check the rules for result files")
    p.add_argument("-v", action="store_true")
    p.add_argument("only", nargs="*")
    a = p.parse_args()
    if not os.path.exists(a.binary):
        print(f"no binary {a.binary}", file=sys.stderr)
        return 2
    root = os.path.realpath(a.root)
    cases = sorted(os.path.join(d) for d, subs, _ in os.walk(root) if "target" in subs)
    if a.only:
        cases = [c for c in cases if any(os.path.relpath(c, root) == o or os.path.relpath(c, root).startswith(o.rstrip("/") + "/") for o in a.only)]
    if not cases:
        print("no such case", file=sys.stderr)
        return 2
    bad = 0
    with ThreadPoolExecutor(a.jobs) as ex:
        for case, (why, took, log) in zip(cases, ex.map(lambda c: run_case(a, c), cases)):
            name = os.path.relpath(case, root)
            if why:
                bad += 1
                say(f"DIFF {name} ({took:.1f} s): {why if a.v else why.splitlines()[0][:200]}")
                if a.v:
                    say(log[-3000:])
            elif a.v:
                say(f"same {name} ({took:.1f} s)")
    say(f"{len(cases) - bad} of {len(cases)} cases equal")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
