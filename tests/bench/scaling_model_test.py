#!/usr/bin/env python3
"""The scaling model against what can be said without it: closed forms, conservation, bounds, and what real runs on one and two processes wrote. No times are
asserted.

    scaling_model_test.py --program msvis-mpi --testdata testdata [unittest options]
"""
import argparse
import dataclasses
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import scaling_model
from scaling_model import Costs, Item, Machine, items_of, parts_of, predict, shares_of

OPTIONS = None
NOTHING = Costs(**{field.name: 0.0 for field in dataclasses.fields(Costs)})
ITEM = Item(json_bytes=1_000_000, target_rows=600, golden_rows=400, row_bytes=2000.0)


def costs(**some):
    return dataclasses.replace(NOTHING, **some)


def machine(processes=1, threads=1, cores=1000, **more):
    return Machine(processes, threads, processes, cores, latency=0, bandwidth=float("inf"), poll=0, **more)


class ClosedForms(unittest.TestCase):
    def test_one_process_is_the_sum_of_its_work(self):
        found = predict(costs(read_per_byte=1e-6, compare_per_row=2e-3), machine(), [ITEM] * 3)
        self.assertAlmostEqual(found.items, 3 * (1.0 + 2.0))
        self.assertAlmostEqual(found.worker_busy, 9.0)

    def test_without_process_0_equal_items_divide_evenly(self):
        for processes in (1, 2, 7, 64):
            found = predict(costs(read_per_byte=1e-6), machine(processes), [ITEM] * 64)
            self.assertAlmostEqual(found.items, -(-64 // processes) * 1.0, msg=f"{processes} processes")

    def test_threads_of_a_process_take_items_of_their_own(self):
        self.assertAlmostEqual(predict(costs(read_per_byte=1e-6), machine(2, 4), [ITEM] * 16).items, 2.0)

    def test_largest_first(self):
        items = [dataclasses.replace(ITEM, json_bytes=size) for size in (1_000_000, 1_000_000, 1_000_000, 3_000_000)]
        self.assertAlmostEqual(predict(costs(read_per_byte=1e-6), machine(2), items).items, 3.0)

    def test_a_slow_writer_sets_the_pace(self):
        for processes in (8, 64, 1024):
            found = predict(costs(encode_per_row=1e-6, insert_per_row=1e-3), machine(processes), [ITEM] * 50)
            with_commits = 50.0 * scaling_model.SHARE_OF_COMMITS / (scaling_model.SHARE_OF_COMMITS - 1)
            self.assertAlmostEqual(found.writer_busy, with_commits)
            self.assertGreaterEqual(found.items, with_commits)
            self.assertLess(found.items, with_commits + 0.01)

    def test_the_loop_sets_the_pace(self):
        found = predict(costs(loop_per_item=1.0), machine(64), [ITEM] * 50)
        self.assertAlmostEqual(found.items, 50.0)

    def test_cores_are_shared(self):
        found = predict(costs(read_per_byte=1e-6), machine(4, cores=2), [ITEM] * 4)
        self.assertAlmostEqual(found.items, 2.0)

    def test_storage_is_a_floor(self):
        found = predict(costs(read_per_byte=1e-9), machine(64, storage=1_000_000), [ITEM] * 10)
        self.assertAlmostEqual(found.items, 10.0)

    def test_indexes_and_floor(self):
        some = costs(index_per_row=1e-3, index_growth=1e-3, floor_per_row=1e-2)
        found = predict(some, machine(), [dataclasses.replace(ITEM, target_rows=624)])
        self.assertAlmostEqual(found.finish, 1024 * (1e-3 + 10e-3))
        self.assertAlmostEqual(found.floor, found.finish + 10.24)


class Tensors(unittest.TestCase):
    TENSORS = dataclasses.replace(ITEM, tensor_bytes=1_000_000_000, tensor_files=100, tensors=50)

    def test_an_item_is_divided_among_all_processes(self):
        for processes in (1, 4, 10):
            found = predict(costs(tensor_per_byte=1e-9), machine(processes), [self.TENSORS], tensor_mode=True)
            self.assertAlmostEqual(found.items, 1.0 / processes)

    def test_an_item_takes_all_threads(self):
        self.assertAlmostEqual(predict(costs(tensor_per_byte=1e-9), machine(1, 4), [self.TENSORS], tensor_mode=True).items, 0.25)

    def test_shares_go_by_bytes(self):
        large = dataclasses.replace(self.TENSORS, tensor_bytes=3_000_000_000)
        self.assertEqual(shares_of([self.TENSORS, large], 8), [2, 6])

    def test_every_share_reads_the_json_and_once_more_at_the_end(self):
        found = predict(costs(read_per_byte=1e-6), machine(10), [self.TENSORS], tensor_mode=True)
        self.assertAlmostEqual(found.items, 2.0)

    def test_parts_add_up(self):
        first, second = parts_of(costs(encode_per_row=1.0, insert_per_row=1.0, insert_per_tensor=1.0), [self.TENSORS] * 3, True, 16)
        self.assertEqual((len(first), len(second)), (16, 3))
        self.assertAlmostEqual(sum(part.rows for part in first), 3000)
        self.assertAlmostEqual(sum(part.insert for part in first), 3000 + 150)


class Bounds(unittest.TestCase):
    SOME = costs(read_per_byte=1e-9, compare_per_row=1e-6, encode_per_row=5e-6, insert_per_row=5e-6, index_per_row=8e-6, floor_per_row=5e-6, loop_per_item=4e-5,
                 loop_per_byte=1e-9, plan_per_item=2e-5, link_per_record=5e-6)
    LARGE = Item(json_bytes=6_000_000, target_rows=30_000, golden_rows=30_000, row_bytes=2000.0, link_records=100)

    def test_window_and_queue_hold(self):
        for processes in (1, 3, 200):
            found = predict(self.SOME, Machine(processes, 1, 8, 10), [self.LARGE] * 100)
            self.assertLessEqual(found.peak_window, scaling_model.WINDOW_BYTES)
            self.assertLessEqual(found.peak_queue, scaling_model.QUEUE_BYTES)

    def test_all_rows_arrive_once(self):
        for processes in (1, 3, 200):
            found = predict(self.SOME, Machine(processes, 2, 8, 10), [self.LARGE] * 100)
            self.assertAlmostEqual(found.rows_inserted, 100 * 60_000, places=3)

    def test_never_faster_than_its_parts_nor_slower_than_their_sum(self):
        for processes in (1, 2, 16, 300):
            setting = Machine(processes, 1, 8, 10)
            found = predict(self.SOME, setting, [self.LARGE] * 100)
            self.assertGreaterEqual(found.items, found.writer_busy)
            self.assertGreaterEqual(found.items, found.loop_busy)
            self.assertGreaterEqual(found.items * processes, found.worker_busy)
            messages = 100 * 120 * 4 * (setting.latency + setting.poll)
            self.assertLessEqual(found.items, found.writer_busy + found.loop_busy + found.worker_busy + messages)

    def test_more_processes_cost_nothing(self):
        times = [predict(self.SOME, Machine(processes, 1, 8, 10), [self.LARGE] * 64).items for processes in (8, 16, 32, 64)]
        for fewer, more in zip(times, times[1:]):
            self.assertLess(more, fewer * 1.001)


class RealRuns(unittest.TestCase):
    """What the model takes from a dump is what real runs do with it."""

    def compare(self, name, processes):
        directory = tempfile.TemporaryDirectory(prefix="msvis-scaling-")
        self.addCleanup(directory.cleanup)
        case = OPTIONS.testdata / "golden" / name
        command = [OPTIONS.program, "-tp", case / "target", "-gp", case / "golden", "-o", directory.name, "--summary-json", f"{directory.name}/summary.json"]
        if processes > 1:
            command = ["mpirun", "--oversubscribe", "-n", str(processes), *command]
        subprocess.run(command, check=True, env=dict(os.environ, **scaling_model.NO_SPINNING), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return case, next(Path(directory.name).glob("*.vis.db")), json.loads(Path(directory.name, "summary.json").read_text())

    def test_items_of_a_comparison(self):
        for name, tensor_mode in (("distributed/p2p_compare", False), ("tensor/mlp_2ranks", True)):
            for processes in (1, 2):
                with self.subTest(case=name, processes=processes):
                    case, result, summary = self.compare(name, processes)
                    items = items_of(case, result)
                    self.assertEqual(len(items), len(summary["items"]))
                    self.assertEqual([(item.target_rows, item.golden_rows) for item in items],
                                     [(item["target_nodes"], item["golden_nodes"]) for item in summary["items"]])
                    self.assertEqual(sum(item.tensors for item in items), summary["tensors"]["compared"] + sum(summary["tensors"]["skipped"].values()))
                    found = predict(Bounds.SOME, Machine(processes, 1, processes, 2), items, tensor_mode)
                    database = sqlite3.connect(result)
                    self.assertAlmostEqual(found.rows_inserted, database.execute("SELECT count(*) FROM tb_nodes").fetchone()[0], places=6)
                    database.close()


def main():
    global OPTIONS
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True, type=lambda text: Path(text).resolve())
    parser.add_argument("--testdata", required=True, type=lambda text: Path(text).resolve())
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
