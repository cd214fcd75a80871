#!/usr/bin/env python3
"""Inputs that stop the reference: what is right for each (testdata/golden/survive/*/reason.txt), in both modes.

usage: test_survive.py --binary build/msvis-mpi --testdata testdata [unittest options]
"""
import argparse
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

ARGUMENTS = None
MODES = ("reference", "standard")


class Survive(unittest.TestCase):
    def setUp(self):
        self.out = pathlib.Path(tempfile.mkdtemp())

    def tearDown(self):
        shutil.rmtree(self.out, ignore_errors=True)

    def run_case(self, name, mode, code=0):
        case = pathlib.Path(ARGUMENTS.testdata) / "golden/survive" / name
        for old in self.out.iterdir():
            old.unlink()
        command = [ARGUMENTS.binary, "-tp", case / "target", "-o", self.out, f"--compat={mode}"]
        if (case / "golden").is_dir():
            command += ["-gp", case / "golden"]
        command += (case / "args.txt").read_text().split() if (case / "args.txt").exists() else []
        done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", timeout=60, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        files = list(self.out.glob("*.vis.db"))
        self.assertEqual(len(files), 0 if code == 1 else 1)
        self.log = done.stdout + done.stderr
        if files:
            self.db = sqlite3.connect(f"file:{files[0]}?mode=ro", uri=True)

    def rows(self, sql, *values):
        return self.db.execute(sql, values).fetchall()

    def items(self, column, node, source="NPU"):
        return json.loads(self.rows(f"SELECT {column} FROM tb_nodes WHERE node_name = ? AND data_source = ?", node, source)[0][0])

    def test_rank_without_framework(self):
        for mode in MODES:
            self.run_case("rank_without_framework", mode)
            self.assertRegex(self.log, r"\[WARNING\].*rank 1.*pytorch")
            self.assertEqual(self.rows("SELECT DISTINCT rank FROM tb_nodes ORDER BY rank"), [(0,), (1,)])
            self.assertEqual(self.rows("SELECT task FROM tb_config"), [("structure",)])

    def test_tensor_task_without_rows(self):
        self.run_case("tensor_task_without_rows", "reference")
        self.assertEqual(self.rows("SELECT task FROM tb_config"), [("all",)])
        self.assertEqual(self.rows("SELECT count(*), sum(matched_node_link <> '[]'), count(precision_index) FROM tb_nodes WHERE data_source = 'NPU'"), [(3, 3, 0)])
        # By default a comparison that compared nothing is no success.
        self.run_case("tensor_task_without_rows", "standard", code=1)
        self.assertIn("nothing was compared", self.log)

    def test_bare_number_argument(self):
        for mode in MODES:
            self.run_case("bare_number_argument", mode)
            self.assertEqual(self.rows("SELECT task FROM tb_config"), [("summary",)])
            self.assertEqual(len(self.items("input_data", "Functional.relu.0.forward")), 1)
            nodes = self.rows("SELECT matched_node_link <> '[]', precision_index IS NOT NULL FROM tb_nodes WHERE data_source = 'NPU' AND node_name <> 'DefaultModel' "
                              "AND input_data <> '{}'")
            self.assertEqual(nodes, [(1, 1)] * 2)

    def test_overflow_check_odd_values(self):
        for mode in MODES:
            self.run_case("overflow_check_odd_values", mode)
            levels = dict(self.rows("SELECT node_name, overflow_level FROM tb_nodes WHERE overflow_level IS NOT NULL"))
            self.assertEqual(levels, {"Torch.mul.0.forward": "high", "Torch.div.0.forward": "critical"})

    def test_deep_nesting_build(self):
        for mode in MODES:
            self.run_case("deep_nesting_build", mode)
            self.assertEqual(self.rows("SELECT count(*) FROM tb_nodes"), [(1101,)])
            self.assertEqual(self.rows("SELECT node_name FROM tb_nodes ORDER BY node_order DESC LIMIT 1"), [("DefaultModel",)])
            self.assertEqual(self.rows("SELECT micro_steps FROM tb_config"), [(1,)])

    def test_backward_without_number(self):
        for mode in MODES:
            self.run_case("backward_without_number", mode)
            self.assertEqual(self.rows("SELECT DISTINCT up_node FROM tb_nodes WHERE node_name = 'Module.net.Net.parameters_grad'"), [("Module.net.Net.backward.0",)])

    def test_integer_beyond_double(self):
        for mode in MODES:
            self.run_case("integer_beyond_double", mode)
            found = [(item, source) for source in ("NPU", "Bench") for column in ("input_data", "output_data")
                     for row in self.rows(f"SELECT {column} FROM tb_nodes WHERE data_source = ?", source) for item in json.loads(row[0]).values()]
            huge = [item for item, source in found if source == "NPU" and len(item.get("Max", "")) == 401]
            self.assertTrue(huge)
            for item in huge:
                self.assertTrue(item["Max"].isdigit())
                self.assertEqual(len(item["Min"].lstrip("-")), 5001)
                self.assertEqual((item["Max diff"], item["Min diff"]), ("inf\t", "-inf\t"))

    def test_lone_surrogate_name(self):
        for mode in MODES:
            self.run_case("lone_surrogate_name", mode)
            self.assertEqual(self.rows("SELECT data_source, count(*), sum(matched_node_link <> '[]') FROM tb_nodes GROUP BY 1 ORDER BY 1"), [("Bench", 4, 4), ("NPU", 4, 4)])
            self.assertEqual(len(self.rows("SELECT 1 FROM tb_nodes WHERE node_name LIKE ?", "%\ufffd%")), 2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True, type=os.path.abspath)
    parser.add_argument("--testdata", required=True)
    ARGUMENTS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
