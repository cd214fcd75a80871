#!/usr/bin/env python3
"""What depends on the number of processes, or on how a run is started and ended: same rows, one exit code, one voice, signals.

    program_test.py --program msvis-mpi --mpiexec mpiexec --testdata testdata [unittest options]
"""

import argparse
import json
import os
import re
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
from row_identity import row_hashes  # noqa: E402

OPTIONS = None
TIMEOUT = 120


class Run:
    """One finished run. processes 0: without a launcher."""

    def __init__(self, arguments, processes=0, **popen):
        self.process = start(arguments, processes, **popen)
        self.stdout, self.stderr = self.process.communicate(timeout=TIMEOUT)
        self.code = self.process.returncode

    def progress(self):
        return progress_lines(self.stdout)


def start(arguments, processes=0, **popen):
    command = [OPTIONS.program, *map(str, arguments)]
    limit_kib = popen.pop("limit_kib", None)
    if limit_kib:
        command = ["bash", "-c", f'ulimit -f {limit_kib}; exec "$0" "$@"', *command]
    if processes:
        command = [OPTIONS.mpiexec, "--oversubscribe", "-n", str(processes), *command]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SLURM_")}
    # Settings for tests as root, and for more processes than cores.
    for key in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        environment.setdefault(key, "1")
    environment.update(popen.pop("env", {}))
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, **popen)


def progress_lines(text):
    """As the viewer's page reads them: whatever stands behind the last mark must be JSON."""
    found = []
    for line in text.splitlines():
        if "PROGRESS: " in line:
            found.append(json.loads(line[line.rindex("PROGRESS: ") + len("PROGRESS: "):]))
    return found


def results_in(directory):
    directory = Path(directory)
    return sorted(directory.glob("*.vis.db")) if directory.exists() else []


def left_in(directory):
    directory = Path(directory)
    return sorted(path.name for path in directory.iterdir()) if directory.exists() else []


class ProgramTest(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="msvis-program-test-")
        self.addCleanup(self.temporary.cleanup)
        self.folder = Path(self.temporary.name)
        self.output = self.folder / "out"

    def case(self, name):
        return Path(OPTIONS.testdata) / "golden" / name

    def copy_of(self, name):
        copy = self.folder / "case"
        shutil.copytree(self.case(name), copy)
        return copy

    def arguments(self, case, output=None, *more):
        arguments = ["-tp", case / "target", "-o", output or self.output]
        if (case / "golden").exists():
            arguments += ["-gp", case / "golden"]
        return arguments + list(more)

    def assert_code(self, run, code):
        self.assertEqual(run.code, code, f"stdout:\n{run.stdout}\nstderr:\n{run.stderr}")

    def the_result(self, directory=None):
        found = results_in(directory or self.output)
        self.assertEqual(len(found), 1, left_in(directory or self.output))
        self.assertEqual(left_in(directory or self.output), [found[0].name], "something else is left beside the result")
        return found[0]

    def value(self, path, query):
        connection = sqlite3.connect(path)
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()


class SameRows(ProgramTest):
    CASES = (
        ("distributed/p2p_compare", ()),
        ("distributed/batch_p2p_compare", ()),
        ("distributed/tree_order_two_steps_compare", ("--compat=reference",)),
        ("distributed/collectives_build", ("--compat=reference",)),
        ("distributed/nan_compare_oc", ("-oc",)),
    )

    def test_any_number_of_processes_and_threads(self):
        for name, flags in self.CASES:
            hashes = {}
            for processes, threads in ((0, 1), (0, 4), (1, 2), (2, 1), (5, 2)):
                with self.subTest(case=name, processes=processes, threads=threads):
                    output = self.folder / f"{Path(name).name}-{processes}-{threads}"
                    run = Run(self.arguments(self.case(name), output, "--threads", threads, *flags), processes)
                    self.assert_code(run, 0)
                    hashes[processes, threads] = row_hashes(self.the_result(output))
            self.assertEqual(len({json.dumps(tables) for tables in hashes.values()}), 1, hashes)

    def test_64_processes(self):
        case = self.case("distributed/p2p_compare")
        self.assert_code(Run(self.arguments(case, self.folder / "alone")), 0)
        begin = time.monotonic()
        run = Run(self.arguments(case, self.output), 64)
        seconds = time.monotonic() - begin
        self.assert_code(run, 0)
        self.assertEqual(row_hashes(self.the_result()), row_hashes(self.the_result(self.folder / "alone")))
        self.assertEqual(self.value(self.the_result(), "SELECT value FROM msvis_run WHERE key = 'processes'"), [("64",)])
        print(f"64 processes: {seconds:.1f} s", file=sys.stderr)


class ExitCodes(ProgramTest):
    def test_help_and_wrong_usage(self):
        for processes in (0, 2):
            with self.subTest(processes=processes):
                run = Run(["--help"], processes)
                self.assert_code(run, 0)
                self.assertEqual(run.stdout.count("--target_path"), Run(["--help"]).stdout.count("--target_path"), "only process 0 prints")
                self.assert_code(Run(["--no-such-option"], processes), 2)
                self.assert_code(Run(["-tp", "x"], processes), 2)

    def test_single_broken_dump(self):
        case = self.copy_of("build/gpt_structure")
        (case / "target" / "construct.json").write_text("{")
        for processes in (0, 2):
            with self.subTest(processes=processes):
                run = Run(self.arguments(case), processes)
                self.assert_code(run, 1)
                self.assertEqual(left_in(self.output), [])
                self.assertIn("construct.json", run.stderr)
                self.assertEqual(run.stderr.count("msvis-mpi: error:"), 1)

    def test_one_broken_rank_of_four(self):
        case = self.copy_of("distributed/p2p_compare")
        (case / "target" / "rank2" / "construct.json").unlink()
        hashes = set()
        for processes in (0, 2, 5):
            with self.subTest(processes=processes):
                output = self.folder / f"out{processes}"
                run = Run(self.arguments(case, output), processes)
                self.assert_code(run, 3)
                result = self.the_result(output)
                self.assertEqual(self.value(result, "SELECT rank_list FROM tb_config"), [("[0, 1, 3]",)])
                self.assertEqual(self.value(result, "SELECT DISTINCT rank FROM tb_nodes ORDER BY rank"), [(0,), (1,), (3,)])
                status = dict(self.value(result, "SELECT rank, status FROM msvis_item"))
                self.assertEqual(status, {0: "done", 1: "done", 2: "failed", 3: "done"})
                reason = self.value(result, "SELECT error FROM msvis_item WHERE rank = 2")[0][0]
                for part in ("step 0", "rank 2", "target", "construct.json"):
                    self.assertIn(part, reason)
                self.assertRegex(run.stdout, r"\[ERROR\] .*rank 2.*construct\.json")
                self.assertIn("1 failed", run.stderr)
                hashes.add(json.dumps(row_hashes(result)))
        self.assertEqual(len(hashes), 1)

    def test_independent_copies_are_refused(self):
        run = Run(["--help"], env={"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0"})
        self.assertNotEqual(run.code, 0)
        self.assertIn("--mpi=pmix", run.stderr)


class OutputFile(ProgramTest):
    def test_modes_and_record(self):
        case = self.case("distributed/p2p_compare")
        output = self.folder / "a" / "b"
        run = Run(self.arguments(case, output, "--threads=2"), 2, umask=0o000)
        self.assert_code(run, 0)
        result = self.the_result(output)
        self.assertEqual(stat.S_IMODE(output.stat().st_mode), 0o750)
        self.assertEqual(stat.S_IMODE(output.parent.stat().st_mode), 0o750)
        self.assertEqual(stat.S_IMODE(result.stat().st_mode), 0o640)
        self.assertRegex(result.name, r"^compare_\d{14}\.vis\.db$")
        record = dict(self.value(result, "SELECT key, value FROM msvis_run"))
        self.assertEqual(record["processes"], "2")
        self.assertEqual(record["threads"], "4")
        self.assertIn("-tp", record["command_line"])
        self.assertEqual(json.loads(record["options"])["target_path"], str(case / "target"))
        self.assertRegex(record["started"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertLessEqual(record["started"], record["ended"])

    def test_linked_output_draws_a_warning(self):
        (self.folder / "real").mkdir()
        self.output.symlink_to(self.folder / "real")
        self.assertIn("symbolic link", Run(self.arguments(self.case("distributed/p2p_build"))).stdout)

    def test_full_disk_leaves_nothing(self):
        case = self.case("distributed/p2p_compare")

        # Only the program is limited, and MPI may not use files for shared memory.
        for processes in (0, 2):
            with self.subTest(processes=processes):
                run = Run(self.arguments(case), processes, limit_kib=100, env={"OMPI_MCA_btl": "tcp,self"})
                self.assert_code(run, 1)
                self.assertEqual(left_in(self.output), [])
                self.assertEqual(run.stderr.count("msvis-mpi: error:"), 1, run.stderr)


class Log(ProgramTest):
    LINE = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(\d+\) \[(DEBUG|INFO|WARNING|ERROR)\] .+$")

    def test_form_and_level(self):
        case = self.case("distributed/p2p_compare")
        for processes in (0, 2):
            run = Run(self.arguments(case), processes)
            self.assert_code(run, 0)
            lines = run.stdout.splitlines()
            self.assertGreater(len(lines), 5)
            for line in lines:
                self.assertRegex(line, self.LINE)
            self.assertEqual(len({re.search(r"\((\d+)\)", line).group(1) for line in lines}), 1, "only process 0 prints")
        run = Run(self.arguments(case), env={"MSPROBE_LOG_LEVEL": "4"})
        self.assertEqual(run.stdout, "")

    def test_no_bar_without_terminal(self):
        run = Run(self.arguments(self.case("distributed/p2p_compare")))
        self.assertNotIn("\r", run.stderr)
        self.assertIn("Result: ", run.stderr)


class ProgressProtocol(ProgramTest):

    def check_failure(self, run):
        lines = run.progress()
        self.assertGreaterEqual(len(lines), 2)
        self.assertTrue(lines[-2]["process_running"])
        self.assertEqual(len(lines[-2]["error_msg"]) > 0, True)
        self.assertFalse(lines[-1]["process_running"])

    def test_wrong_usage(self):
        run = Run(["-tp", self.folder, "-progress_log", "--no-such-option"])
        self.assert_code(run, 2)
        self.check_failure(run)

    def test_failed_rank(self):
        case = self.copy_of("distributed/p2p_compare")
        (case / "target" / "rank1" / "stack.json").unlink()
        run = Run(self.arguments(case, None, "-progress_log"), 2)
        self.assert_code(run, 3)
        self.check_failure(run)
        self.assertEqual(len(run.progress()[-1]["error_msg"]), 1)

    def test_many_ranks_stay_sparse(self):
        case = self.folder / "case"
        source = self.case("distributed/p2p_build") / "target" / "rank0"
        for rank in range(300):
            shutil.copytree(source, case / "target" / f"rank{rank}")
        begin = time.monotonic()
        run = Run(self.arguments(case, None, "-progress_log"), 2)
        seconds = time.monotonic() - begin
        self.assert_code(run, 0)
        self.assertLess(len(run.stdout.splitlines()), 20 + 10 * seconds)
        self.assertEqual(run.progress()[-1]["current_progress"], 100)


class Signals(ProgramTest):
    """Many ranks make a run long enough to be interrupted while it works."""

    def slow_case(self):
        case = self.folder / "case"
        source = self.case("distributed/p2p_build") / "target" / "rank0"
        first = case / "target" / "rank0"
        shutil.copytree(source, first)
        for rank in range(1, 4000):
            directory = case / "target" / f"rank{rank}"
            directory.mkdir()
            for file in first.iterdir():
                os.link(file, directory / file.name)
        return case

    def interrupt(self, processes, number, more=()):
        process = start(self.arguments(self.slow_case(), None, "--threads=1", *more), processes)
        deadline = time.monotonic() + TIMEOUT
        while not left_in(self.output) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=TIMEOUT)
        return process.returncode, stdout, stderr

    def test_keyboard(self):
        code, _, stderr = self.interrupt(0, signal.SIGINT)
        self.assertIn(code, (4, 130), stderr)
        self.assertEqual(len(left_in(self.output)), 0 if code == 130 else 1, "kept if anything was done")
        self.assertIn("interrupted", stderr)

    def test_termination_with_progress(self):
        code, stdout, stderr = self.interrupt(0, signal.SIGTERM, ("-progress_log",))
        self.assertEqual(code, 4, stderr)
        self.assertEqual(results_in(self.output), [])
        self.assertEqual(len(left_in(self.output)), 1)
        self.assertIn("--resume", stderr)
        lines = progress_lines(stdout)
        self.assertTrue(lines[-2]["process_running"])
        self.assertFalse(lines[-1]["process_running"])

    def test_termination_of_the_launcher(self):
        code, stdout, stderr = self.interrupt(2, signal.SIGTERM, ("-progress_log",))
        self.assertNotEqual(code, 0, stderr)
        self.assertEqual(results_in(self.output), [])
        self.assertFalse(progress_lines(stdout)[-1]["process_running"])


class InterruptedTable(ProgramTest):
    slow_case = Signals.slow_case

    def test_while_the_table_is_written(self):
        """No file is left half written, and the continued run writes the table of an uninterrupted one."""
        case = self.slow_case()
        for processes, name in ((0, "table.h5"), (2, "table.h5"), (2, "table.csv")):
            with self.subTest(processes=processes, name=name):
                whole = self.folder / f"{processes}-{name}"
                self.assert_code(Run(self.arguments(case, self.folder / f"whole-{processes}-{name}", "--metrics", whole)), 0)
                self.output = self.folder / f"out-{processes}-{name}"
                tables = self.folder / f"tables-{processes}-{name}"
                tables.mkdir()
                (tables / name).write_text("of an earlier run")
                arguments = self.arguments(case, None, "--threads=1", "--metrics", tables / name)
                process = start(arguments, processes)
                deadline = time.monotonic() + TIMEOUT
                while (len(left_in(tables)) == 1 or not left_in(self.output)) and process.poll() is None and time.monotonic() < deadline:
                    time.sleep(0.001)
                process.send_signal(signal.SIGTERM)
                stdout, stderr = process.communicate(timeout=TIMEOUT)
                self.assertIn("Writing the parameter table", stdout)
                self.assertEqual(left_in(tables), [name])
                # The signal may have come in the last moment: the file is the old one or the whole new one.
                self.assertIn((tables / name).read_bytes(), (b"of an earlier run", whole.read_bytes()))
                if not results_in(self.output):
                    self.assertIn("--resume", stderr)
                    self.assert_code(Run([*arguments, "--resume"], processes), 0)
                self.the_result()
                self.assertEqual((tables / name).read_bytes(), whole.read_bytes())

    def test_rows_of_the_table_survive(self):
        """Interrupted while ranks are in work."""
        case = self.slow_case()
        self.output = self.folder / "whole"
        whole = self.folder / "whole.csv"
        self.assert_code(Run(self.arguments(case, None, "--metrics", whole)), 0)
        self.output = self.folder / "out"
        table = self.folder / "table.csv"
        arguments = self.arguments(case, None, "--threads=1", "--metrics", table)
        process = start(arguments, 2)
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline and process.poll() is None:
            spill = [path for path in self.output.glob("*-metrics") if path.stat().st_size > 1_000_000] if self.output.exists() else []
            if spill:
                break
            time.sleep(0.001)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT)
        if not results_in(self.output):  # else it was too fast
            self.assertTrue(list(self.output.glob("*-metrics")))
            run = Run([*arguments, "--resume"], 2)
            self.assert_code(run, 0)
            self.assertRegex(run.stdout, r"Continuing .*: [1-9]\d* .*of 4000 done")
        self.assertEqual(table.read_bytes(), whole.read_bytes())
        self.the_result()


def main():
    """For the modules that build on this one, too."""
    global OPTIONS
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--mpiexec", required=True)
    parser.add_argument("--testdata", required=True)
    OPTIONS, rest = parser.parse_known_args()
    OPTIONS.program = str(Path(OPTIONS.program).resolve())
    OPTIONS.testdata = str(Path(OPTIONS.testdata).resolve())
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
