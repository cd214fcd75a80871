#!/usr/bin/env python3
"""The parameter table (--metrics) against the result file, cell by cell, and the same for any number of processes.

    metrics_test.py --program msvis-mpi --mpiexec mpiexec --testdata testdata [unittest options]

Needs h5py.
"""

import csv
import importlib.util
import io
import json
import math
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import h5py

OPTIONS = None
STATISTICS = ("max", "min", "mean", "norm")
# Key in input_data or output_data: column.
CELLS = {
    "summary": {"Max diff": "max_diff", "Min diff": "min_diff", "Mean diff": "mean_diff", "L2norm diff": "norm_diff", "MaxRelativeErr": "max_relative",
                "MinRelativeErr": "min_relative", "MeanRelativeErr": "mean_relative", "NormRelativeErr": "norm_relative"},
    "all": {"Cosine": "cosine", "EucDist": "euclidean_distance", "MaxAbsErr": "max_abs_err", "MaxRelativeErr": "max_relative_err",
            "One Thousandth Err Ratio": "one_thousandth_err_ratio", "Five Thousandths Err Ratio": "five_thousandths_err_ratio"},
}
ALL_CELLS = sorted({column for cells in CELLS.values() for column in cells.values()})
TEXTS = {"node": "node", "parameter": "parameter", "golden_node": "node", "golden_parameter": "parameter", "target_dtype": "dtype", "golden_dtype": "dtype",
         "target_shape": "shape", "golden_shape": "shape", "result": "result", "reason": "reason"}


def run(arguments, processes=0, **popen):
    command = [OPTIONS.program, *map(str, arguments)]
    if processes:
        command = [OPTIONS.mpiexec, "--oversubscribe", "-n", str(processes), *command]
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", env=environment, timeout=240, check=False, **popen)


def read_h5(path):
    """Rows as dictionaries, codes replaced by their texts."""
    with h5py.File(path, "r") as file:
        dictionaries = {name: [text.decode() for text in values[()]] for name, values in file["dictionary"].items()}
        columns = {}
        for name, values in file["table"].items():
            read = values[()].tolist()
            if name in TEXTS:
                dictionary = dictionaries[values.attrs["dictionary"].rsplit("/")[-1]]
                read = [dictionary[code] for code in read]
            elif name.endswith("_md5"):
                read = [value.decode() for value in read]
            columns[name] = read
        attributes = dict(file.attrs)
        assert all(len(column) == attributes["rows"] for column in columns.values())
    for name, texts in dictionaries.items():
        assert texts == sorted(set(texts), key=str.encode) and texts[0] == "", name
    return attributes, [dict(zip(columns, row)) for row in zip(*columns.values())]


def read_csv(path):
    """Rows as dictionaries of the types that the HDF5 file has."""
    text = Path(path).read_bytes().decode("utf-8")
    assert text.endswith("\r\n")
    rows = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    header = rows.pop(0)
    typed = []
    for row in rows:
        assert len(row) == len(header), row
        cells = dict(zip(header, row))
        for name, cell in cells.items():
            if name in ("step", "rank", "node_order", "position", "md5_equal"):
                cells[name] = int(cell)
            elif name in TEXTS or name.endswith("_md5"):
                assert not cell.startswith(tuple("=+-@\t\r")), cell
                if cell[:1] == "'" and cell[1:2] in tuple("=+-@\t\r"):
                    cells[name] = cell[1:]
            else:
                cells[name] = float(cell)
        typed.append(cells)
    return typed


def same(left, right):
    return left == right or (isinstance(left, float) and isinstance(right, float) and math.isnan(left) and math.isnan(right))


def number(text):
    """What stands in the result file as a number; NaN for the words that stand for none."""
    text = text.strip().rstrip("%")
    if text in ("True", "False"):
        return float(text == "True")
    try:
        return float(text)
    except ValueError:
        return math.nan


def shown(text):
    return "" if text == "null" else text


def clean(text):
    """As every file can hold it."""
    return text.replace("\0", "\ufffd")


def display(text):
    """The result file drops quotes and writes None as null."""
    return text.replace("'", "").replace("None", "null")


class Nodes:
    """The nodes of a result file with their parameters in stored order."""

    def __init__(self, path):
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        self.task = connection.execute("SELECT task FROM tb_config").fetchone()[0]
        self.target = []
        self.by_name = {}
        query = "SELECT data_source, step, rank, node_order, node_name, precision_index, matched_node_link, input_data, output_data FROM tb_nodes ORDER BY step, rank, node_order"
        for source, step, rank, order, name, precision, link, inputs, outputs in connection.execute(query):
            parameters = [*json.loads(inputs).items(), *json.loads(outputs).items()]
            node = (step, rank, order, name, precision, json.loads(link), parameters)
            if source == "NPU":
                self.target.append(node)
            self.by_name[source, step, rank, name] = node
        connection.close()


class TableTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="msvis-metrics-test-")
        self.addCleanup(self.temporary.cleanup)
        self.folder = Path(self.temporary.name)

    def arguments(self, case, output):
        arguments = ["-tp", "target", "-o", output]
        if (case / "golden").exists():
            arguments += ["-gp", "golden"]
        if (case / "args.txt").exists():
            arguments += shlex.split((case / "args.txt").read_text())
        return arguments

    def make(self, case, suffix, processes=0, *more):
        """Runs a case; returns table and result file."""
        output = self.folder / f"out{len(list(self.folder.iterdir()))}"
        table = output.with_suffix(suffix)
        done = run([*self.arguments(case, output), "--metrics", table, *more], processes, cwd=case)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        results = list(output.iterdir())
        self.assertEqual(len(results), 1, results)
        self.assertIn("parameters to", done.stdout)
        return table, results[0]

    def case(self, name):
        return (Path(OPTIONS.testdata) / "golden" / name).resolve()

    # ---- against the result file

    def assert_number(self, value, text, where):
        expected = number(text)
        if same(value, expected) or math.isclose(value, expected, rel_tol=1e-13):
            return
        self.assertAlmostEqual(value, expected, delta=0.5000001e-6, msg=where)  # texts are rounded for display

    def assert_statistics(self, row, side, cells, where):
        for statistic in STATISTICS:
            if statistic.capitalize() in cells:
                self.assert_number(row[f"{side}_{statistic}"], cells[statistic.capitalize()], f"{where} {side} {statistic}")

    def assert_as_result(self, rows, result, reference=False):
        nodes = Nodes(result)
        expected = []
        for step, rank, order, name, precision, link, parameters in nodes.target:
            for position, (key, cells) in enumerate(parameters):
                short = key[len(name) + 1:] if key.startswith(name + ".") and len(key) > len(name) + 1 else key
                expected.append(((step, rank, order, clean(short).encode(), position), name, precision, link, cells))
        expected.sort(key=lambda one: one[0])
        self.assertEqual([(row["step"], row["rank"], row["node_order"], row["parameter"].encode(), row["position"]) for row in rows], [one[0] for one in expected])
        shown_metrics = 0
        for row, (place, name, precision, link, cells) in zip(rows, expected):
            where = f"{place} of {name}"
            # The reference may take names and values of a row from different parameters there (docs/deviations.md).
            odd = reference and (".input." in name or ".output." in name)
            self.assertEqual(row["node"], clean(name), where)
            self.assertTrue(same(row["precision_index"], math.nan if precision is None else float(precision)), where)
            self.assertEqual(row["golden_node"], clean(link[-1]) if link else "", where)
            # Shown without values: what has none, and process groups.
            empty = cells == {"value": "null"} or cells.get("type") == "torch.ProcessGroup"
            if not empty:
                self.assertEqual(row["target_dtype"], clean(shown(cells.get("dtype", ""))), where)
                self.assertEqual(row["target_shape"], clean(shown(cells.get("shape", ""))), where)
                self.assert_statistics(row, "target", cells, where)
            compared = {column: cells[key] for key, column in CELLS.get(nodes.task, {}).items() if key in cells}
            for column in ALL_CELLS:
                if column in compared:
                    self.assert_number(row[column], compared[column], f"{where} {column}")
                    shown_metrics += 1
                elif not empty:
                    self.assertTrue(math.isnan(row[column]), f"{where} {column}")
            if "Result" in cells and nodes.task in ("summary", "md5", "all"):
                self.assertEqual(row["result"], cells["Result"], where)
                told = "; ".join(json.loads(cells["Err_message"]))
                reason = display(row["reason"])
                # The reference drops why there are no metrics; the table has it.
                self.assertEqual(reason if not reference else reason.split("info: ")[0].removesuffix("; "), told, where)
            if not link and nodes.task:
                self.assertEqual(row["result"], "unmatched", where)
            if "md5" in cells:
                self.assertEqual(row["target_md5"], shown(cells["md5"])[:32], where)
            if row["golden_parameter"]:
                golden = dict(nodes.by_name["Bench", row["step"], row["rank"], link[-1]][6])
                key = next((key for key in (f"{link[-1]}.{row['golden_parameter']}", row["golden_parameter"]) if key in golden), None)
                if key is None:
                    self.assertIn("\ufffd", row["golden_parameter"], where)
                    continue
                theirs = golden[key]
                if not odd and theirs != {"value": "null"} and theirs.get("type") != "torch.ProcessGroup":
                    self.assertEqual(row["golden_dtype"], clean(shown(theirs.get("dtype", ""))), where)
                    self.assertEqual(row["golden_shape"], clean(shown(theirs.get("shape", ""))), where)
                    self.assert_statistics(row, "golden", theirs, where)
                    if nodes.task == "md5" and "md5" in theirs:
                        self.assertEqual(row["golden_md5"], shown(theirs["md5"])[:32], where)
            if odd:
                continue
            if row["target_md5"] and row["golden_md5"]:
                self.assertEqual(row["md5_equal"], int(row["target_md5"] == row["golden_md5"]), where)
            else:
                self.assertEqual(row["md5_equal"], -1, where)
        return shown_metrics


class AsResult(TableTest):
    CASES = ("statistics/gpt_2ranks", "statistics/zoo_types", "statistics/mlp_nan_inf", "statistics/mlp_2steps_2ranks", "statistics/mlp_missing_entries",
             "tensor/zoo_types", "tensor/mlp_damaged_file", "tensor/gpt_shape_mismatch", "tensor/mlp_bf16_model", "md5/mlp_2ranks", "md5/mlp_scale",
             "fuzzy/gpt_shifted_counts", "layer_mapping/gpt_ms_vs_pt_yaml", "mindspore/zoo_tensor", "structure/gpt_extra_op", "build/gpt_md5",
             "build/lstm_tensor", "unequal/blocks_1_vs_2", "random/tensor_ranks_001", "random/md5_151", "merge/tp2_vs_tp1", "merge/tp2dp2_vs_dp2", "merge/pp2vpp2_build")

    def test_all_cells(self):
        metrics = {}
        for name in self.CASES:
            for more in ((), ("--compat=reference",)):
                with self.subTest(case=name, more=more):
                    table, result = self.make(self.case(name), ".h5", 0, *more)
                    attributes, rows = read_h5(table)
                    self.assertEqual(attributes["format"], "msvis-metrics")
                    self.assertEqual(attributes["version"], 1)
                    task = Nodes(result).task
                    self.assertEqual([*attributes["modes"]], [task] if task else [])
                    self.assertEqual(attributes["kind"], "compare" if task else "build")
                    self.assertGreater(len(rows), -1 if task == "structure" else 10)
                    metrics[task] = metrics.get(task, 0) + self.assert_as_result(rows, result, reference=bool(more))
        self.assertGreater(metrics["summary"], 1000)
        self.assertGreater(metrics["all"], 1000)

    def test_csv_is_the_same_table(self):
        for name in ("statistics/mlp_nan_inf", "tensor/zoo_types", "md5/mlp_2ranks", "build/gpt_md5"):
            with self.subTest(case=name):
                _, rows = read_h5(self.make(self.case(name), ".h5")[0])
                table, result = self.make(self.case(name), ".csv")
                from_csv = read_csv(table)
                self.assertEqual(len(from_csv), len(rows))
                for ours, theirs in zip(from_csv, rows):
                    self.assertEqual(ours.keys(), theirs.keys())
                    for column, value in ours.items():
                        self.assertTrue(same(value, theirs[column]), f"{column}: {value!r}, {theirs[column]!r}")
                self.assert_as_result(from_csv, result)

    def test_unused_columns(self):
        """Columns without values take no space and read as nothing."""
        table, _ = self.make(self.case("statistics/gpt_2ranks"), ".h5")
        with h5py.File(table) as file:
            self.assertEqual(file["table/cosine"].id.get_storage_size(), 0)
            self.assertTrue(all(math.isnan(value) for value in file["table/cosine"][()]))
            self.assertEqual(set(file["table/md5_equal"][()]), {-1})
            self.assertGreater(file["table/max_diff"].id.get_storage_size(), 0)
            self.assertEqual(file["table/max_relative"].attrs["unit"], "percent")

    def test_h5dump_reads_it(self):
        dump = shutil.which("h5dump")
        if dump is None:
            self.skipTest("h5dump is not installed")
        table, _ = self.make(self.case("tensor/mlp_2ranks"), ".h5", 2)
        done = subprocess.run([dump, table], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn('"Module.mlp.MLP.forward.0"', done.stdout)


class AnyProcesses(TableTest):
    def test_bits_are_the_same(self):
        for name, more in (("statistics/mlp_2steps_2ranks", ()), ("tensor/gpt_weight_fault", ()), ("tensor/mlp_2ranks", ()), ("md5/mlp_2ranks", ()),
                           ("build/mlp_2ranks", ()), ("merge/tp2pp2_vs_tp1", ())):
            for suffix in (".h5", ".csv"):
                files = set()
                for processes in (0, 1, 2, 5):
                    table, _ = self.make(self.case(name), suffix, processes, *more)
                    files.add(table.read_bytes())
                self.assertEqual(len(files), 1, f"{name} {suffix}")

    def test_followed_job_gives_the_same_table(self):
        case = self.case("statistics/mlp_2steps_2ranks")
        at_once, _ = self.make(case, ".h5")
        for processes in (0, 2):
            table = self.folder / f"followed{processes}.h5"
            done = run([*self.arguments(case, self.folder / f"out of a followed job {processes}"), "--metrics", table, "--follow", "--settle", 0, "--poll", 1,
                        "--idle-timeout", 1], processes, cwd=case)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(table.read_bytes(), at_once.read_bytes())

    def test_failed_rank_has_no_rows(self):
        case = self.folder / "case"
        shutil.copytree(self.case("statistics/gpt_2ranks"), case)
        (case / "target/rank1/construct.json").unlink()
        tables = set()
        for processes in (0, 2):
            table = self.folder / f"{processes}.h5"
            done = run([*self.arguments(case, self.folder / f"out{processes}"), "--metrics", table], processes, cwd=case)
            self.assertEqual(done.returncode, 3, done.stderr)
            _, rows = read_h5(table)
            self.assertEqual({row["rank"] for row in rows}, {0})
            tables.add(table.read_bytes())
        self.assertEqual(len(tables), 1)


class Documents(TableTest):
    DOCS = Path(__file__).resolve().parent.parent.parent / "docs"

    def test_schema(self):
        """docs/metrics.md has every column with its type, unit and meaning, in the order of the table."""
        table, _ = self.make(self.case("md5/mlp_2ranks"), ".h5")
        csv_table, _ = self.make(self.case("md5/mlp_2ranks"), ".csv")
        lines = re.findall(r"^\| `(\w+)` \| (\w+\d*)[^|]* \| ([^|]*) \| (.*) \|$", (self.DOCS / "metrics.md").read_text(), re.M)
        self.assertEqual([line[0] for line in lines], csv_table.read_text().splitlines()[0].split(","))
        with h5py.File(table) as file:
            self.assertEqual(set(file["table"]), {line[0] for line in lines})
            self.assertEqual(set(file["dictionary"]), set(TEXTS.values()))
            self.assertEqual([text.decode() for text in file["dictionary/result"]], ["", "error", "pass", "unmatched", "warning"])
            for name, kind, unit, meaning in lines:
                column = file["table"][name]
                self.assertEqual(column.attrs["description"], meaning)
                self.assertEqual(str(column.dtype) if kind != "string" else "string", kind)
                self.assertEqual({"1": ""}.get(column.attrs.get("unit", ""), column.attrs.get("unit", "")), unit.strip())
                self.assertEqual(column.attrs.get("dictionary", ""), f"/dictionary/{TEXTS[name]}" if name in TEXTS else "")

    def test_snippet(self):
        table, _ = self.make(self.case("statistics/gpt_2ranks"), ".h5")
        snippet = next(block for block in re.findall(r"```python\n(.*?)```", (self.DOCS / "metrics.md").read_text(), re.S) if "h5py" in block)
        shutil.copy(table, self.folder / "table.h5")
        done = subprocess.run([sys.executable, "-c", snippet], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(done.stdout.splitlines()), 10)

    def test_example(self):
        example = [sys.executable, self.DOCS / "examples/plot_errors.py"]
        for name, more, expected in (("statistics/gpt_2ranks", (), "layers.0.mlp.MLP"), ("tensor/mlp_2ranks", ("--nodes", "Functional"), "Functional.linear.1"),
                                     ("statistics/gpt_2ranks", ("--column", "max_diff", "--step", "0"), "Module.head")):
            table, _ = self.make(self.case(name), ".h5")
            done = subprocess.run([*example, table, "--text", *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, rf"(?m)^step 0 rank 1 .*{re.escape(expected)}")
            if importlib.util.find_spec("matplotlib"):
                picture = self.folder / "errors.png"
                done = subprocess.run([*example, table, "-o", picture, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertTrue(picture.read_bytes().startswith(b"\x89PNG"))
                self.assertGreater(picture.stat().st_size, 10000)
        done = subprocess.run([*example, table, "--nodes", "nothing"], stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)


HOSTILE = ("=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(1)", "\tx", "\rx", "a,b", 'quote " in "it"', "line\r\nbreak", "\n=1", "", " ", "nul\0byte", "ünïcødé \U0001f600",
           "'=1", '","', "x" * 5000, "../../etc/passwd", "%s%n", "\x1b[31m", "\u2028")


class Hostile(TableTest):
    def make_case(self):
        case = self.folder / "case"
        names = [f"Torch.{text}.0.forward" for text in HOSTILE] + [f"{text}.0.forward" for text in HOSTILE]
        leaf = {"type": "torch.Tensor", "dtype": "=dtype()", "shape": [2], "Max": 1.0, "Min": -1.0, "Mean": 0.5, "Norm": 2.0, "requires_grad": False}
        for side, norm in (("target", 2.0), ("golden", 3.0)):
            data = {name: {"input_args": [dict(leaf, Norm=norm)], "input_kwargs": {text: dict(leaf, dtype=text, Norm=norm) for text in HOSTILE},
                           "output": [dict(leaf, shape=text) for text in HOSTILE]} for name in names}
            (case / side).mkdir(parents=True)
            (case / side / "dump.json").write_text(json.dumps({"task": "statistics", "framework": "pytorch", "data": data}))
            (case / side / "construct.json").write_text(json.dumps(dict.fromkeys(names)))
            (case / side / "stack.json").write_text("{}")
        return case

    def test_names(self):
        case = self.make_case()
        table, result = self.make(case, ".h5")
        _, rows = read_h5(table)
        self.assert_as_result(rows, result)
        csv_table, _ = self.make(case, ".csv")
        from_csv = read_csv(csv_table)
        self.assertEqual(len(from_csv), len(rows))
        for ours, theirs in zip(from_csv, rows):
            for column, value in ours.items():
                # An apostrophe before a formula character may have been there before.
                self.assertTrue(same(value, theirs[column]) or theirs[column] == "'" + str(value), f"{column}: {value!r}, {theirs[column]!r}")
        nodes = {row["node"] for row in rows}
        for text in HOSTILE:
            self.assertIn(clean(f"Torch.{text}.0.forward"), nodes)
        # What a spreadsheet sees.
        raw = list(csv.DictReader(io.StringIO(csv_table.read_bytes().decode(), newline="")))
        cells = {cell for row in raw for cell in row.values()}
        self.assertIn("'=dtype()", cells)
        self.assertIn("'=cmd|' /C calc'!A0.0.forward", cells)
        self.assertFalse([cell for row in raw for name, cell in row.items() if name in TEXTS and cell.startswith(tuple("=+-@\t\r"))])
        self.assertEqual({row["target_min"] for row in raw}, {"-1", "NaN"})  # a negative number stays one; "" is no name of an argument


if __name__ == "__main__":
    import argparse
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True, type=os.path.abspath)
    parser.add_argument("--mpiexec", default="mpiexec")
    parser.add_argument("--testdata", required=True)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
