#!/usr/bin/env python3
"""Deviations of the default mode that only a whole run shows (docs/deviations.md; the others have unit tests).

usage: test_deviations.py --binary build/msvis-mpi --testdata testdata [unittest options]
"""
import argparse
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import unittest

ARGUMENTS = None


class Deviations(unittest.TestCase):
    def both(self, case, sql):
        """Rows of a query in the default mode, and with the reference."""
        found = []
        for mode in ("standard", "reference"):
            with tempfile.TemporaryDirectory() as out:
                directory = pathlib.Path(ARGUMENTS.testdata) / "golden" / case
                command = [ARGUMENTS.binary, "-tp", directory / "target", "-o", out, f"--compat={mode}"]
                if (directory / "golden").is_dir():
                    command += ["-gp", directory / "golden"]
                done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stdout)
                file = next(pathlib.Path(out).glob("*.vis.db"))
                found.append(sqlite3.connect(f"file:{file}?mode=ro", uri=True).execute(sql).fetchall())
        return found

    def test_micro_steps_of_several_graphs(self):
        self.assertEqual(self.both("random/build_ranks_001", "SELECT micro_steps FROM tb_config"), [[(2,)], [(1,)]])

    def test_reasons_of_missing_tensors(self):
        standard, reference = self.both("tensor/mlp_missing_files", "SELECT input_data, output_data FROM tb_nodes WHERE data_source = 'NPU'")

        def messages(rows):
            return [message for row in rows for column in row for item in json.loads(column).values()
                    for message in json.loads(item.get("Err_message", "[]")) if message.startswith("info: ")]
        self.assertEqual(messages(reference), [])
        self.assertTrue(any("missing" in m or "no such file" in m.lower() for m in messages(standard)), messages(standard)[:3])

    def test_links_of_mindspore_groups(self):
        standard, reference = self.both("mindspore/mlp_2ranks", "SELECT count(*) FROM tb_nodes WHERE matched_distributed <> '{}' AND node_name LIKE '%all_reduce%'")
        self.assertEqual(reference, [(0,)])
        self.assertGreater(standard[0][0], 0)

    def test_step_given_directly(self):
        case = pathlib.Path(ARGUMENTS.testdata) / "golden/statistics/mlp_2steps_2ranks"
        for mode, step in (("standard", 1), ("reference", 0)):
            with tempfile.TemporaryDirectory() as out:
                subprocess.run([ARGUMENTS.binary, "-tp", str(case / "target/step1"), "-o", out, f"--compat={mode}"], check=True, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
                file = next(pathlib.Path(out).glob("*.vis.db"))
                rows = sqlite3.connect(f"file:{file}?mode=ro", uri=True).execute("SELECT DISTINCT step FROM tb_nodes").fetchall()
                self.assertEqual(rows, [(step,)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True, type=os.path.abspath)
    parser.add_argument("--testdata", required=True)
    ARGUMENTS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
