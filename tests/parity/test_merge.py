#!/usr/bin/env python3
"""Merged ranks against the un-split truth, in the default mode.

    test_merge.py --binary build/msvis-mpi --mpiexec mpiexec [unittest options]

The dumps come from tests/support/parallel_dump.py: one model, dumped whole and by the ranks of a split job. What the program makes of the ranks must be what it
makes of the whole: the same nodes, the same shapes, the same statistics (relative 1e-6: the ranks' own are rounded to float32).
"""
import argparse
import collections
import itertools
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / part) for part in ("support", "tools")]
import parallel_dump as P  # noqa: E402
from row_identity import row_hashes  # noqa: E402

ARGUMENTS = None
STATISTICS = ("Max", "Min", "Mean", "Norm")


def number(text):
    """Value of a statistic as the result file has it; None: unknown."""
    if text in (None, "null", "None", "", "N/A"):
        return None
    try:
        return float(text)
    except ValueError:
        return text


class Node:
    def __init__(self, row):
        self.name, self.type, self.up, subs, inputs, outputs, info, self.link, self.precision = row
        self.children = json.loads(subs) if subs else []
        self.info = json.loads(info) if info else []
        self.items = {}
        for column in (inputs, outputs):
            for key, item in (json.loads(column) if column else {}).items():
                self.items[key[len(self.name) + 1:] if key.startswith(self.name) else key] = item


class Result:
    """Nodes of one graph of a result file by name."""

    def __init__(self, file, source="NPU", rank=None):
        connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
        columns = "node_name, node_type, up_node, sub_nodes, input_data, output_data, parallel_merge_info, matched_node_link, precision_index"
        self.ranks = [r for r, in connection.execute("SELECT DISTINCT rank FROM tb_nodes WHERE data_source IN (?, '') ORDER BY rank", (source,))]
        rank = self.ranks[0] if rank is None else rank
        rows = connection.execute(f"SELECT {columns} FROM tb_nodes WHERE data_source IN (?, '') AND rank = ?", (source, rank))
        self.nodes = {row[0]: Node(row) for row in rows}
        connection.close()

    def apis(self, node):
        """API children that are no communication, with what their names have in common with those of the un-split graph."""
        found, seen = [], collections.Counter()
        for name in node.children:
            child = self.nodes[name]
            if str(child.type) == "1" and not name.startswith("Distributed"):
                common = re.sub(r"\.\d+\.", ".", re.sub(r"_rank\d+", "", name))
                found.append(((common, seen[common]), child))
                seen[common] += 1
        return found


class MergeTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="msvis-merge-test-")
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        self.count = 0

    def dump(self, split=P.Split(), model=P.Model(), form=P.Form()):
        self.count += 1
        directory = self.folder / f"dump{self.count}"
        P.write(directory, split, model, form)
        return directory

    def run_program(self, arguments, processes=0, expect=0):
        self.count += 1
        out = self.folder / f"out{self.count}"
        command = [ARGUMENTS.binary, *map(str, arguments), "-o", str(out)]
        if processes:
            command = [ARGUMENTS.mpiexec, "--oversubscribe", "-n", str(processes), *command]
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=environment, timeout=120)
        self.assertEqual(done.returncode, expect, done.stdout)
        self.log = done.stdout
        files = list(out.glob("*.vis.db"))
        self.assertEqual(len(files), 1 if expect == 0 else 0, done.stdout)
        return files[0] if files else None

    @staticmethod
    def flags(*splits):
        """Command-line flags of one side or two."""
        flags = ["--rank_size", *(s.ranks for s in splits), "--tp", *(s.tp for s in splits), "--pp", *(s.pp for s in splits)]
        for name in ("vpp", "cp", "ep"):
            if any(getattr(s, name) > 1 for s in splits):
                flags += [f"--{name}", *(getattr(s, name) for s in splits)]
        if any(s.order != P.Split.order for s in splits):
            flags += ["--order", *(s.order for s in splits)]
        return flags

    def build(self, split, model=P.Model(), form=P.Form(), rank=None):
        return Result(self.run_program(["-tp", self.dump(split, model, form), *self.flags(split)]), rank=rank)

    def whole(self, model=P.Model(), form=P.Form()):
        return Result(self.run_program(["-tp", self.dump(P.Split(), model, form) / "rank0"]))

    def assert_same_value(self, found, expected, scale, where):
        if expected is None or isinstance(expected, str):
            self.assertEqual(found, expected, where)
        elif expected != expected:
            self.assertTrue(found is not None and found != found, f"{where}: {found}, not NaN")
        else:
            self.assertIsInstance(found, float, f"{where}: {found} instead of {expected}")
            self.assertLessEqual(abs(found - expected), 1e-6 * scale, f"{where}: {found} instead of {expected}")

    def assert_same_items(self, node, whole, unknown):
        self.assertEqual(set(node.items), set(whole.items), node.name)
        for key, item in node.items.items():
            expected = whole.items[key]
            where = f"{node.name} {key}"
            self.assertEqual(item.get("shape"), expected.get("shape"), where)
            values = {s: number(expected.get(s)) for s in STATISTICS}
            if unknown(node.name, key, expected.get('shape')):
                self.not_told.add((node.name, key))
                # Rather no number than a wrong one; the mean of a sum is known.
                for statistic in STATISTICS:
                    found = number(item.get(statistic))
                    if found is not None and statistic == "Mean":
                        self.assert_same_value(found, values["Mean"], max(abs(values["Max"]), abs(values["Min"])), where)
                    else:
                        self.assertIsNone(found, f"{where} {statistic}")
                continue
            scale = max([abs(v) for s, v in values.items() if s in ("Max", "Min") and isinstance(v, float)], default=1)
            for statistic, value in values.items():
                self.assert_same_value(number(item.get(statistic)), value, abs(value) if statistic == "Norm" and isinstance(value, float) else scale,
                                       f"{where} {statistic}")

    def assert_is_whole(self, merged, whole, unknown=lambda node, key, shape: False, extra=lambda node: False):
        """All nodes of the whole are there with its values, and no other modules. `unknown`: entries of which the ranks can't tell; `extra`: nodes that only the
        ranks have."""
        self.not_told = set()
        modules = {n for n, node in whole.nodes.items() if str(node.type) == "0"}
        merged_modules = {n for n, node in merged.nodes.items() if str(node.type) == "0" and not extra(n)}
        self.assertEqual(merged_modules ^ modules, set())
        for name in sorted(modules):
            if name != "DefaultModel":
                self.assertEqual(merged.nodes[name].up, whole.nodes[name].up, name)
                self.assert_same_items(merged.nodes[name], whole.nodes[name], unknown)
                found, expected = merged.apis(merged.nodes[name]), whole.apis(whole.nodes[name])
                self.assertEqual([common for common, _ in found], [common for common, _ in expected], name)
                for (_, node), (_, reference) in zip(found, expected):
                    # Keys are compared by their place below the node.
                    self.assert_same_items(node, reference, unknown)

    @staticmethod
    def masked_ids(node, key, shape):
        """Ids of the rows that a rank has of the vocabulary tell nothing of the whole."""
        return node.startswith("Functional.embedding") and key == "input.0"

    @staticmethod
    def summed_over_sequence(node, key, shape):
        """With sequence parallelism, gradients of what all ranks have are sums over the ranks, reduced after the dump."""
        return node.endswith("parameters_grad") and ("Norm" in node or "RowParallelLinear" in node and key == "bias")

    def check(self, split, model=P.Model(), form=P.Form(), unknown=None, whole_model=None):
        merged = self.build(split, model, form)
        self.assert_is_whole(merged, self.whole(whole_model or model, form), unknown or (self.masked_ids if split.tp > 1 else lambda node, key, shape: False))
        return merged


class TensorParallel(MergeTest):
    def test_two(self):
        merged = self.check(P.Split(tp=2))
        self.assertTrue(any(node.info for node in merged.nodes.values()))

    def test_four(self):
        self.check(P.Split(tp=4))

    def test_batch(self):
        self.check(P.Split(tp=2), P.Model(batch=2))

    def test_modules_only(self):
        self.check(P.Split(tp=2), form=P.Form(api=False))

    def test_sequence_parallel_modules_only(self):
        """Without communication nodes, the shapes tell that the sequence is split."""
        self.check(P.Split(tp=2, sequence_parallel=True), form=P.Form(api=False), unknown=self.summed_over_sequence)

    def test_gate_and_up(self):
        self.check(P.Split(tp=2), P.Model(gated=True))

    def test_query_groups(self):
        self.check(P.Split(tp=2), P.Model(groups=2))

    def test_sequence_parallel(self):
        self.check(P.Split(tp=2, sequence_parallel=True), unknown=lambda *place: self.masked_ids(*place) or self.summed_over_sequence(*place))
        self.assertGreater(len(self.not_told), 5)

    def test_requires_grad(self):
        name = "Module.0.module.decoder.layers.0.mlp.linear_fc1.ColumnParallelLinear.forward.0"
        dump = self.dump(P.Split(tp=2))
        file = dump / "rank1" / "dump.json"
        data = json.loads(file.read_text())
        data["data"][name]["parameters"]["weight"]["requires_grad"] = False
        file.write_text(json.dumps(data))
        self.run_program(["-tp", dump, *self.flags(P.Split(tp=2))])
        self.assertIn("requires_grad", self.log)

    def test_checksums(self):
        """Of what all ranks have the checksum is that of the whole; of shards there is none, which is no difference."""
        form = P.Form(md5=True)
        result = Result(self.run_program(["-tp", self.dump(P.Split(tp=2), form=form), "-gp", self.dump(form=form), *self.flags(P.Split(tp=2), P.Split())]))
        node = result.nodes["Module.0.module.decoder.layers.0.mlp.linear_fc2.RowParallelLinear.forward.0"]
        self.assertEqual(node.items["parameters.bias"]["Result"], "pass")
        self.assertEqual(node.items["parameters.weight"]["md5"], "N/A")
        self.assertEqual(node.items["parameters.weight"]["Result"], "pass")
        self.assertFalse([n for n, node in result.nodes.items() for item in node.items.values() if item.get("Result") in ("error", "warning")])
        # A difference shows in the statistics.
        changed = self.dump(P.Split(tp=4), P.Model(scale=(("layers.1.mlp.linear_fc2.weight", 1.001),)), form)
        splits = (P.Split(tp=4), P.Split(tp=2))
        result = Result(self.run_program(["-tp", changed, "-gp", self.dump(splits[1], form=form), *self.flags(*splits)]))
        item = result.nodes["Module.0.module.decoder.layers.1.mlp.linear_fc2.RowParallelLinear.forward.0"].items["parameters.weight"]
        self.assertEqual(item["Result"], "error", item)

    def test_classes_of_other_libraries(self):
        """Where neither class nor reduction tells how a tensor is split, the shape of an un-split other side does."""
        dumps = [self.dump(P.Split(tp=2)), self.dump()]
        names = {"ColumnParallelLinear": "MyFirst", "RowParallelLinear": "MySecond", "VocabParallelEmbedding": "MyTable", "DotProductAttention": "MyCore",
                 "SelfAttention": "MyAttention", ".MLP.": ".MyFeed."}
        for file in [f for d in dumps for f in d.glob("rank*/*.json")]:
            text = file.read_text()
            for old, new in names.items():
                text = text.replace(old, new)
            file.write_text(text)
        result = Result(self.run_program(["-tp", dumps[0], "-gp", dumps[1], *self.flags(P.Split(tp=2), P.Split())]))
        weight = result.nodes["Module.0.module.decoder.layers.0.mlp.linear_fc1.MyFirst.forward.0"].items["parameters.weight"]
        self.assertEqual(weight["shape"], "[32, 16]")
        self.assertLess(float(weight["NormRelativeErr"].rstrip("%")), 1e-4)
        self.assertFalse([n for n, node in result.nodes.items() if node.precision not in (None, 0)], "all must pass")
        self.assertNotIn("diverged replicas", self.log)

    def test_overflow_of_any_rank_shows(self):
        name = "Module.0.module.decoder.layers.1.mlp.linear_fc2.RowParallelLinear.forward.0"
        form = P.Form(inject=(("nan", "layers.1.mlp.linear_fc2.RowParallelLinear.forward", "output.0", (1,)),))
        dump = self.dump(P.Split(tp=2), form=form)
        file = self.run_program(["-tp", dump, *self.flags(P.Split(tp=2)), "-oc"])
        rows = sqlite3.connect(f"file:{file}?mode=ro", uri=True).execute("SELECT overflow_level FROM tb_nodes WHERE node_name = ?", (name,)).fetchall()
        self.assertNotEqual(rows, [(None,)])

    def test_rounding_gives_no_warning(self):
        """Statistics that are combined from rounded ones differ by 1e-8 here and 1e-9 there."""
        result = Result(self.run_program(["-tp", self.dump(P.Split(tp=2)), "-gp", self.dump(), *self.flags(P.Split(tp=2), P.Split())]))
        self.assertFalse([n for n, node in result.nodes.items() if node.precision not in (None, 0)])

    def test_nan_of_any_shard_shows(self):
        for rank in (0, 1):
            form = P.Form(inject=(("nan", "layers.1.mlp.linear_fc2.RowParallelLinear.forward", "parameters.weight", (rank,)),))
            item = self.build(P.Split(tp=2), form=form).nodes["Module.0.module.decoder.layers.1.mlp.linear_fc2.RowParallelLinear.forward.0"].items["parameters.weight"]
            self.assertEqual([item[s] for s in STATISTICS], ["nan"] * 4, rank)
            self.assertEqual(item["shape"], "[16, 32]")

    def test_nan_in_one_replica_shows(self):
        form = P.Form(inject=(("nan", "layers.1.input_layernorm.RMSNorm.forward", "output.0", (1,)),))
        item = self.build(P.Split(tp=2), form=form).nodes["Module.0.module.decoder.layers.1.input_layernorm.RMSNorm.forward.0"].items["output.0"]
        self.assertEqual(item["Max"], "nan")

    def test_diverged_replica(self):
        """Noise on one rank of what all have: values stay those of a replica (no factor √t), and it is told."""
        name = "Module.0.module.decoder.layers.1.input_layernorm.RMSNorm.forward.0"
        merged = self.build(P.Split(tp=2), form=P.Form(inject=(("noise:1e-4", "layers.1.input_layernorm.RMSNorm.forward", "output.0", (1,)),))).nodes[name]
        whole = self.whole().nodes[name]
        norm, expected = float(merged.items["output.0"]["Norm"]), float(whole.items["output.0"]["Norm"])
        self.assertLess(abs(norm / expected - 1), 1e-2)
        self.assertEqual(merged.items["output.0"]["shape"], whole.items["output.0"]["shape"])
        self.assertTrue(any("output.0" in line and ("differ" in line or "diverged" in line) for line in merged.info), merged.info)

    def test_changed_weight_against_whole(self):
        """A weight changed by 60 % shows as 60 %, not as something that merging did."""
        model = P.Model(scale=(("layers.1.mlp.linear_fc2.weight", 1.6),))
        target, golden = self.dump(P.Split(tp=2), model), self.dump(P.Split())
        file = self.run_program(["-tp", target, "-gp", golden, *self.flags(P.Split(tp=2), P.Split())])
        result = Result(file)
        item = result.nodes["Module.0.module.decoder.layers.1.mlp.linear_fc2.RowParallelLinear.forward.0"].items["parameters.weight"]
        self.assertAlmostEqual(float(item["NormRelativeErr"].rstrip("%")), 60, places=4)
        item = result.nodes["Module.0.module.decoder.layers.0.mlp.linear_fc2.RowParallelLinear.forward.0"].items["parameters.weight"]
        self.assertLess(float(item["NormRelativeErr"].rstrip("%")), 1e-4)


class PipelineParallel(MergeTest):
    def test_two(self):
        self.check(P.Split(pp=2))

    def test_unequal_stages(self):
        for stages in ((1, 2, 2), (2, 2, 1), (2, 1, 2), (3, 1, 1)):
            with self.subTest(stages=stages):
                self.check(P.Split(pp=3, stages=stages), P.Model(layers=5))

    def test_virtual_stages(self):
        merged = self.check(P.Split(pp=2, vpp=2))
        self.assertIn("Module.0.module.output_layer.ColumnParallelLinear.forward.0", merged.nodes)

    def test_unequal_virtual_stages(self):
        self.check(P.Split(pp=2, vpp=2, stages=(1, 2, 1, 1)), P.Model(layers=5))

    def test_micro_batches(self):
        self.check(P.Split(pp=2), P.Model(micro_batches=2))

    def test_one_vpp_for_both_sides(self):
        split = P.Split(pp=2, vpp=2)
        dumps = [self.dump(split), self.dump(split)]
        file = self.run_program(["-tp", dumps[0], "-gp", dumps[1], "--rank_size", 2, 2, "--tp", 1, 1, "--pp", 2, 2, "--vpp", 2])
        result = Result(file)
        self.assertFalse([n for n in result.nodes if n.startswith("Module.1.")])
        self.assertFalse([n for n, node in result.nodes.items() if str(node.type) == "0" and n != "DefaultModel" and node.link in (None, "", "[]", "null")])

    def test_root_nodes_of_all_stages(self):
        """The loss is computed by APIs at the root of the last stage."""
        merged = self.build(P.Split(pp=2))
        losses = [n for n in merged.nodes if re.match(r"Torch\.(sum|div)(_rank1)?\.0\.forward", n)]
        self.assertEqual(len(losses), 2, sorted(merged.nodes)[:40])


class Combined(MergeTest):
    def test_tensor_and_pipeline(self):
        self.check(P.Split(tp=2, pp=2))

    def test_many_splits(self):
        """Each with several things at once: gate and up, several samples, sequence parallelism, unequal stages, context parallelism, modules only."""
        splits = (P.Split(tp=2, pp=2, sequence_parallel=True), P.Split(tp=4, pp=3, stages=(1, 2, 1)), P.Split(tp=2, pp=2, vpp=2, cp=2),
                  P.Split(tp=2, cp=2, sequence_parallel=True), P.Split(tp=2, pp=2, vpp=2, sequence_parallel=True), P.Split(cp=4, pp=2))
        models = (P.Model(gated=True, batch=2, groups=4, heads=8, sequence=16), P.Model(batch=3, sequence=32, vocabulary=64))
        for split, model, api in itertools.product(splits, models, (True, False)):
            with self.subTest(split=split, model=model, api=api):
                def unknown(*place, split=split):
                    return split.tp > 1 and self.masked_ids(*place) or split.sequence_parallel and self.summed_over_sequence(*place) or (
                        split.cp > 1 and ContextParallel.unknown(*place))
                self.check(split, model, P.Form(api=api), unknown=unknown)

    def test_orders_of_rank_numbers(self):
        model = P.Model(micro_batches=2)
        golden = self.dump(P.Split(dp=2), model)
        wholes = [Result(self.run_program(["-tp", golden / f"rank{rank}"])) for rank in (0, 1)]
        for order, ranks in (("tp-cp-pp-ep-dp", [0, 4]), ("pp-tp-cp-ep-dp", [0, 4]), ("dp-ep-cp-tp-pp", [0, 1])):
            with self.subTest(order=order):
                split = P.Split(tp=2, pp=2, dp=2, order=order)
                file = self.run_program(["-tp", self.dump(split, model), *self.flags(split)])
                self.assertEqual(Result(file).ranks, ranks)
                for rank, whole in zip(ranks, wholes):
                    self.assert_is_whole(Result(file, rank=rank), whole, self.masked_ids)

    def test_wrong_order_is_told(self):
        split = P.Split(tp=2, pp=2, order="pp-tp-cp-ep-dp")
        self.run_program(["-tp", self.dump(split), *self.flags(P.Split(tp=2, pp=2))])
        self.assertIn("--order", self.log)

    def test_with_replicas(self):
        model = P.Model(micro_batches=2)
        split = P.Split(tp=2, pp=2, dp=2)
        dump = self.dump(split, model)
        file = self.run_program(["-tp", dump, *self.flags(split)])
        self.assertEqual(Result(file).ranks, [0, 2])
        # Replica d runs micro-batch d of the job.
        golden = self.dump(P.Split(dp=2), model)
        for rank in (0, 1):
            whole = Result(self.run_program(["-tp", golden / f"rank{rank}"]))
            self.assert_is_whole(Result(file, rank=2 * rank), whole, self.masked_ids)

    def test_unlike_splits_agree(self):
        one, other = P.Split(tp=4), P.Split(tp=2, pp=2)
        file = self.run_program(["-tp", self.dump(one), "-gp", self.dump(other), *self.flags(one, other)])
        result = Result(file)
        for name, node in result.nodes.items():
            for key, item in node.items.items():
                text = item.get("NormRelativeErr", "")
                if text.endswith("%") and text != "N/A":
                    self.assertLess(float(text[:-1]), 1e-3, f"{name} {key}")

    def test_rows_do_not_depend_on_processes(self):
        split, other = P.Split(tp=2, pp=2, dp=2), P.Split(tp=4, dp=2)
        model = P.Model(micro_batches=2)
        arguments = ["-tp", self.dump(split, model), "-gp", self.dump(other, model), *self.flags(split, other)]
        expected = row_hashes(self.run_program(arguments))
        for processes in (1, 2, 5):
            self.assertEqual(row_hashes(self.run_program(arguments, processes)), expected, processes)


class ContextParallel(MergeTest):
    @staticmethod
    def unknown(node, key, shape):
        # Gradients of parameters are sums over the ranks, and so is the loss.
        weight_gradient = node.startswith("Tensor.matmul") and key == "output.0" and shape.count(",") == 1
        return node.endswith("parameters_grad") or weight_gradient

    def test_two(self):
        self.check(P.Split(cp=2), unknown=self.unknown)

    def test_with_tensor_parallelism(self):
        self.check(P.Split(tp=2, cp=2), unknown=lambda *place: self.unknown(*place) or self.masked_ids(*place))


class ExpertParallel(MergeTest):
    def test_experts_of_all_ranks(self):
        model = P.Model(experts=4, micro_batches=2, layers=2)
        split = P.Split(dp=2, ep=2)
        merged = self.build(split, model)
        numbers = {int(m[1]) for m in (re.search(r"local_experts\.(\d+)\.MLP\.forward", n) for n in merged.nodes) if m}
        self.assertEqual(numbers, {0, 1, 2, 3})
        # Weights of each expert are those of the whole.
        whole = self.whole(P.Model(experts=4, layers=2))
        found = 0
        for name, node in merged.nodes.items():
            if "local_experts" in name and "Linear.forward" in name:
                self.assertEqual({s: node.items["parameters.weight"][s] for s in STATISTICS},
                                 {s: whole.nodes[name].items["parameters.weight"][s] for s in STATISTICS}, name)
                found += 1
        self.assertEqual(found, 2 * 4 * 2)


class UnequalReplicas(MergeTest):
    def test_global_micro_batches(self):
        """2 replicas of 2 micro-batches each against one of 4: paired by the number in the job."""
        model = P.Model(micro_batches=4, layers=2)
        one, other = P.Split(dp=2, tp=2), P.Split()
        file = self.run_program(["-tp", self.dump(one, model), "-gp", self.dump(other, model), *self.flags(one, other)])
        compared = 0
        for rank in Result(file).ranks:
            for name, node in Result(file, rank=rank).nodes.items():
                for key, item in node.items.items():
                    text = item.get("NormRelativeErr", "")
                    if re.fullmatch(r"[-0-9.e]+%", text) and ".TransformerLayer.forward." in name:
                        self.assertLess(float(text[:-1]), 1e-3, f"{rank} {name} {key}")
                        compared += 1
        self.assertGreaterEqual(compared, 2 * 4 * 2)


class Tensors(MergeTest):
    """Task tensor: the metrics of merged ranks are those of the un-split tensors, though nothing is gathered."""

    METRICS = ("Cosine", "EucDist", "MaxAbsErr", "MaxRelativeErr", "One Thousandth Err Ratio", "Five Thousandths Err Ratio")
    FORM = P.Form(task="tensor")

    @staticmethod
    def models(**fields):
        """A model, and the same with one weight a little off."""
        return P.Model(**fields), P.Model(**fields, scale=(("layers.1.self_attention.linear_proj.weight", 1.001),))

    def compared(self, one, other, **fields):
        """Results of target (split `one`, the model that is off) against golden (split `other`): merged, and of the whole."""
        golden_model, target_model = self.models(**fields)
        merged = self.run_program(["-tp", self.dump(one, target_model, self.FORM), "-gp", self.dump(other, golden_model, self.FORM), *self.flags(one, other)])
        whole = self.run_program(["-tp", self.dump(P.Split(), target_model, self.FORM) / "rank0", "-gp", self.dump(P.Split(), golden_model, self.FORM) / "rank0"])
        return Result(merged), Result(whole)

    def assert_same_metrics(self, merged, whole, unknown=lambda node, key, shape: False, summed=lambda node, key, shape: False):
        """`summed`: entries that are sums over the ranks; made up by the tool they may differ in the last bits."""
        compared, differing = 0, 0
        for name, node in whole.nodes.items():
            if str(node.type) != "0" or name == "DefaultModel":
                continue
            pairs = [(merged.nodes[name], node)]
            found, expected = merged.apis(merged.nodes[name]), whole.apis(node)
            self.assertEqual([common for common, _ in found], [common for common, _ in expected], name)
            pairs += [(a, b) for (_, a), (_, b) in zip(found, expected)]
            for ours, theirs in pairs:
                for key, item in theirs.items.items():
                    if "EucDist" not in item:
                        continue
                    where = f"{ours.name} {key}"
                    metrics, reference = ([i[key].get(m) for m in self.METRICS] for i in (ours.items, theirs.items))
                    shape = item.get("shape")
                    if unknown(ours.name, key, shape):
                        self.assertEqual(metrics, ["unsupported"] * 6, where)
                    elif summed(ours.name, key, shape):
                        for value, right in zip(metrics, reference):
                            self.assertAlmostEqual(float(value), float(right), delta=1e-4 * abs(float(right)) + 1e-6, msg=where)
                    else:
                        self.assertEqual(metrics, reference, where)
                    compared += 1
                    differing += reference[1] not in ("0.0", "unsupported")
        self.assertGreater(compared, 50)
        self.assertGreater(differing, 20)

    def test_tensor_parallel_against_whole(self):
        self.assert_same_metrics(*self.compared(P.Split(tp=2), P.Split()), unknown=self.masked_ids)

    def test_unlike_tensor_parallel_sizes(self):
        self.assert_same_metrics(*self.compared(P.Split(tp=4), P.Split(tp=2)), unknown=self.masked_ids)

    def test_gate_and_up(self):
        self.assert_same_metrics(*self.compared(P.Split(tp=4), P.Split(tp=2), gated=True), unknown=self.masked_ids)

    def test_gate_and_up_of_modules_only(self):
        form = P.Form(task="tensor", api=False)
        name = "Module.0.module.decoder.layers.1.mlp.linear_fc1.ColumnParallelLinear.forward.0"
        model, splits = P.Model(gated=True), (P.Split(tp=4), P.Split(tp=2))
        items = Result(self.run_program(["-tp", self.dump(splits[0], model, form), "-gp", self.dump(splits[1], model, form), *self.flags(*splits)])).nodes[name].items
        for key in ("input.0", "parameters.weight", "output.0"):
            self.assertEqual([items[key][m] for m in self.METRICS[:3]], ["1.0", "0.0", "0.0"], key)

    def test_batch(self):
        self.assert_same_metrics(*self.compared(P.Split(tp=2), P.Split(tp=4), batch=2), unknown=self.masked_ids)

    def test_pipeline(self):
        self.assert_same_metrics(*self.compared(P.Split(tp=2, pp=2), P.Split(pp=2, vpp=2)), unknown=self.masked_ids)

    def test_sequence_parallel(self):
        self.assert_same_metrics(*self.compared(P.Split(tp=2, sequence_parallel=True), P.Split()), unknown=self.masked_ids,
                                 summed=self.summed_over_sequence)

    def test_context_parallel(self):
        def summed(node, key, shape):
            return ContextParallel.unknown(node, key, shape) or node.startswith(("Torch.sum", "Torch.div"))
        self.assert_same_metrics(*self.compared(P.Split(tp=2, cp=2), P.Split()), unknown=self.masked_ids, summed=summed)

    def test_replicas_vote(self):
        """One bit on one rank of what all ranks have is told."""
        name = "layers.1.input_layernorm.RMSNorm.forward"
        form = P.Form(task="tensor", inject=(("ulp", name, "output.0", (1,)),))
        target, golden = self.dump(P.Split(tp=2), form=form), self.dump(P.Split(), form=self.FORM)
        node = Result(self.run_program(["-tp", target, "-gp", golden, *self.flags(P.Split(tp=2), P.Split())])).nodes[f"Module.0.module.decoder.{name}.0"]
        message = node.items["output.0"]["Err_message"]
        self.assertIn("rank1", message)
        self.assertIn("1 of 128 elements", message)

    def test_worst_of_diverged_replicas(self):
        name = "layers.1.input_layernorm.RMSNorm.forward"
        form = P.Form(task="tensor", inject=(("scale:1.25", name, "output.0", (1,)),))
        target, golden = self.dump(P.Split(tp=2), form=form), self.dump(P.Split(), form=self.FORM)
        node = Result(self.run_program(["-tp", target, "-gp", golden, *self.flags(P.Split(tp=2), P.Split())])).nodes[f"Module.0.module.decoder.{name}.0"]
        self.assertAlmostEqual(float(node.items["output.0"]["MaxRelativeErr"]), 0.25, places=4)

    def test_vocabulary_padding(self):
        """A job pads the vocabulary as its split wants it; the rows that both sides have are compared."""
        name = "Module.0.module.embedding.word_embeddings.VocabParallelEmbedding.forward.0"
        for one, other in ((P.Split(tp=4), P.Split()), (P.Split(tp=2), P.Split(tp=4))):
            splits = (one, other)
            dumps = [self.dump(split, P.Model(padding={1: 0, 2: 2, 4: 4}[split.tp]), self.FORM) for split in splits]
            item = Result(self.run_program(["-tp", dumps[0], "-gp", dumps[1], *self.flags(*splits)])).nodes[name].items["parameters.weight"]
            self.assertEqual([item[m] for m in self.METRICS], ["1.0", "0.0", "0.0", "0.0", "1.0", "1.0"], item)

    def test_experts(self):
        """Weights of experts of all ranks against those of a job in which every rank has all of them."""
        golden_model, target_model = (P.Model(experts=4, layers=2, micro_batches=2, scale=scale) for scale in ((), (("layers.1.mlp.linear_fc1.weight", 1.001),)))
        one, other = P.Split(dp=2, ep=2), P.Split(dp=2)
        file = self.run_program(["-tp", self.dump(one, target_model, self.FORM), "-gp", self.dump(other, golden_model, self.FORM), *self.flags(one, other)])
        compared = 0
        for rank in (0, 1):
            for name, node in Result(file, rank=rank).nodes.items():
                if "local_experts" in name and "linear_fc1" in name and ".forward." in name:
                    item = node.items["parameters.weight"]
                    # By a thousandth of float32 values: what 1.001 gives for each of them.
                    off = "layers.1." in name
                    self.assertAlmostEqual(float(item["MaxRelativeErr"]), 1e-3 if off else 0, delta=1e-6, msg=name)
                    compared += 1
        self.assertEqual(compared, 2 * 2 * 4)

    def test_unlike_numbers_of_replicas(self):
        """Each replica's micro-batches against those of the same number in the job."""
        model = P.Model(micro_batches=4, layers=2)
        one, other = P.Split(dp=2, tp=2), P.Split()
        file = self.run_program(["-tp", self.dump(one, model, self.FORM), "-gp", self.dump(other, model, self.FORM), *self.flags(one, other)])
        compared = 0
        for rank in Result(file).ranks:
            for name, node in Result(file, rank=rank).nodes.items():
                if ".layers." in name and ".forward." in name:
                    for key, item in node.items.items():
                        if "MaxAbsErr" in item:
                            self.assertEqual(item["MaxAbsErr"], "0.0", f"{rank} {name} {key}: {item['Err_message']}")
                            compared += 1
        self.assertGreater(compared, 4 * 2 * 30)

    def test_missing_file_of_one_rank(self):
        name = "Module.0.module.decoder.layers.1.mlp.linear_fc2.RowParallelLinear.forward.0"
        target, golden = self.dump(P.Split(tp=2), form=self.FORM), self.dump(form=self.FORM)
        (target / "rank1" / "dump_tensor_data" / f"{name}.parameters.weight.pt").unlink()
        (target / "rank0" / "dump_tensor_data" / f"{name}.parameters.bias.pt").unlink()
        items = Result(self.run_program(["-tp", target, "-gp", golden, *self.flags(P.Split(tp=2), P.Split())])).nodes[name].items
        self.assertEqual([items["parameters.weight"][m] for m in self.METRICS], ["unsupported"] * 6)
        self.assertIn("rank1", items["parameters.weight"]["Err_message"])
        # The other replica of the bias is there.
        self.assertEqual(items["parameters.bias"]["MaxAbsErr"], "0.0")
        self.assertIn("rank0 was not compared", items["parameters.bias"]["Err_message"])

    def test_rows_do_not_depend_on_processes(self):
        golden_model, target_model = self.models(layers=2)
        one, other = P.Split(tp=4), P.Split(tp=2, pp=2)
        arguments = ["-tp", self.dump(one, target_model, self.FORM), "-gp", self.dump(other, golden_model, self.FORM), *self.flags(one, other)]
        expected = row_hashes(self.run_program(arguments))
        for processes in (1, 2, 5):
            self.assertEqual(row_hashes(self.run_program(arguments, processes)), expected, processes)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True, type=os.path.abspath)
    parser.add_argument("--mpiexec", default="mpiexec")
    ARGUMENTS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
