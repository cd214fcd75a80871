#!/usr/bin/env python3
"""The generator itself: its gradients are those of its loss, and the slices of the ranks make up the un-split tensors."""
import pathlib
import sys
import tempfile
import json
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import parallel_dump as P  # noqa: E402


class Gradients(unittest.TestCase):
    def check(self, model, named):
        parameters = P.Parameters(model)
        one = P.Pass(model, parameters, 0)
        rng = np.random.default_rng(0)
        for name, value, gradient in named(parameters, one):
            computed = gradient.local(P.View(P.Split()))
            for _ in range(3):
                place = tuple(rng.integers(0, n) for n in value.shape)
                old = value[place]
                losses = []
                for step in (1e-6, -1e-6):
                    value[place] = old + step
                    losses.append(P.Pass(model, parameters, 0).loss.mean())
                value[place] = old
                numeric = (losses[0] - losses[1]) / 2e-6
                self.assertAlmostEqual(numeric, computed[place], delta=1e-7 + 1e-4 * abs(numeric), msg=f"{name}{place}")

    @staticmethod
    def of_layer(one, layer, end):
        return next(grads for path, _, grads in one.gradients[layer] if path.endswith(end))

    def test_dense(self):
        for gated in (False, True):
            model = P.Model(hidden=8, heads=4, groups=2, layers=2, ffn=8, vocabulary=16, batch=2, gated=gated)
            self.check(model, lambda p, one: [
                ("embedding", p.embedding, one.embedding_grads[0][2]["weight"]), ("output", p.output, one.output_grads["weight"]),
                ("final", p.final, one.final_grads["weight"]), ("qkv", p.layers[0]["qkv"], self.of_layer(one, 0, "linear_qkv")["weight"]),
                ("proj", p.layers[1]["proj"], self.of_layer(one, 1, "linear_proj")["weight"]),
                ("proj bias", p.layers[0]["proj_bias"], self.of_layer(one, 0, "linear_proj")["bias"]),
                ("fc1", p.layers[0]["mlp"][0]["fc1"], self.of_layer(one, 0, "linear_fc1")["weight"]),
                ("fc1 bias", p.layers[0]["mlp"][0]["fc1_bias"], self.of_layer(one, 0, "linear_fc1")["bias"]),
                ("fc2", p.layers[1]["mlp"][0]["fc2"], self.of_layer(one, 1, "linear_fc2")["weight"]),
                ("norm", p.layers[0]["input_layernorm"], self.of_layer(one, 0, "input_layernorm")["weight"])])

    def test_experts(self):
        model = P.Model(hidden=8, heads=4, layers=2, ffn=8, vocabulary=16, batch=2, experts=2)
        self.check(model, lambda p, one: [("router", p.layers[0]["router"], self.of_layer(one, 0, "router")["weight"]),
                                          ("qkv", p.layers[0]["qkv"], self.of_layer(one, 0, "linear_qkv")["weight"])])


class Slices(unittest.TestCase):
    def entries(self, split, model, rank):
        with tempfile.TemporaryDirectory() as out:
            P.write(pathlib.Path(out) / "d", split, model)
            return json.loads((pathlib.Path(out) / "d" / f"rank{rank}" / "dump.json").read_text())["data"]

    def test_partial_sums(self):
        model = P.Model()
        parameters = P.Parameters(model)
        one = P.Pass(model, parameters, 0)
        split = P.Split(tp=4)
        views = [P.View(split, tp=k) for k in range(4)]

        def walk(node):
            yield node
            for child in node.children:
                yield from walk(child)
        found = 0
        for top in one.forward_nodes + one.backward_nodes + [one.embedding_node, one.output_back]:
            for node in walk(top):
                if node.kind == "communication" and node.name[0] == "all_reduce":
                    total = sum(node.inputs[0].local(view) for view in views)
                    np.testing.assert_allclose(total, node.outputs[0].local(views[0]), rtol=1e-12, atol=1e-14)
                    found += 1
        self.assertEqual(found, 4 * model.layers + 2)

    def test_zigzag(self):
        view = P.View(P.Split(cp=2), cp=1)
        self.assertEqual(list(view.positions(8)), [2, 3, 4, 5])
        self.assertEqual(list(P.View(P.Split(cp=2), cp=0).positions(8)), [0, 1, 6, 7])

    def test_shapes(self):
        name = "Module.0.module.decoder.layers.0.mlp.linear_fc1.ColumnParallelLinear.forward.0"
        whole = self.entries(P.Split(), P.Model(gated=True), 0)[name]
        part = self.entries(P.Split(tp=2, sequence_parallel=True), P.Model(gated=True), 1)[name]
        self.assertEqual(whole["parameters"]["weight"]["shape"], [64, 16])
        self.assertEqual(part["parameters"]["weight"]["shape"], [32, 16])
        self.assertEqual([whole["input_args"][0]["shape"], part["input_args"][0]["shape"]], [[8, 1, 16], [4, 1, 16]])

    def test_stages(self):
        split = P.Split(pp=2, vpp=2, stages=(1, 2, 1, 1))
        model = P.Model(layers=5)
        for rank, layers in ((0, {("0", "0"), ("1", "0")}), (1, {("0", "0"), ("0", "1"), ("1", "0")})):
            names = [n.split(".") for n in self.entries(split, model, rank) if ".TransformerLayer.forward." in n]
            self.assertEqual({(n[1], n[5]) for n in names}, layers)


if __name__ == "__main__":
    unittest.main()
