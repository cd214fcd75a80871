#!/usr/bin/env python3
"""Runs beside a job that is still writing its dumps (--follow).

    follow_test.py --program msvis-mpi --mpiexec mpiexec --testdata testdata [unittest options]
"""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import program_test
from program_test import ProgramTest, Run, TIMEOUT, left_in, results_in, start
from row_identity import row_hashes

GENERATOR = Path(__file__).resolve().parent.parent / "tools" / "gen_dump.py"
STEPS = 4
RANKS = 2


class Follow(ProgramTest):
    @classmethod
    def setUpClass(cls):
        shared = tempfile.TemporaryDirectory(prefix="msvis-follow-test-")
        cls.addClassCleanup(shared.cleanup)
        cls.dump = Path(shared.name)
        for side, more in (("golden", []), ("target", ["--perturb", "noise=0.3@1"])):
            subprocess.run([sys.executable, str(GENERATOR), str(cls.dump / side), f"--steps={STEPS}", f"--ranks={RANKS}", "--layers=2",
                            *more], check=True, stdout=subprocess.DEVNULL)

    def setUp(self):
        super().setUp()
        self.target = self.folder / "target"

    def follow(self, *more, processes=0, golden=True):
        arguments = ["-tp", self.target, "-o", self.output, "--follow", "--poll=0.1", "--settle=2", *more]
        if golden:
            arguments += ["-gp", self.dump / "golden"]
        process = start(arguments, processes)
        self.addCleanup(process.kill)
        self.lines = []
        self.reader = threading.Thread(target=lambda: self.lines.extend(iter(process.stdout.readline, "")))
        self.reader.start()
        return process

    def end(self, process, code=0):
        process.wait(timeout=TIMEOUT)
        self.reader.join()
        stderr = process.stderr.read()
        process.stdout.close()
        process.stderr.close()
        self.assertEqual(process.returncode, code, f"{''.join(self.lines)}\n{stderr}")
        return stderr

    def wait_for(self, what, text):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if any(what in line for line in self.lines):
                return
            time.sleep(0.05)
        self.fail(f"{text}: no line with {what!r} in {''.join(self.lines)}")

    def write_half(self, step, rank):
        """As a dumper would: the files grow."""
        source = self.dump / "target" / f"step{step}" / f"rank{rank}"
        directory = self.target / f"step{step}" / f"rank{rank}"
        directory.mkdir(parents=True)
        for name in ("dump.json", "construct.json"):
            content = (source / name).read_bytes()
            (directory / name).write_bytes(content[:len(content) // 2])

    def write_rest(self, step, rank):
        source = self.dump / "target" / f"step{step}" / f"rank{rank}"
        for file in source.iterdir():
            shutil.copy(file, self.target / f"step{step}" / f"rank{rank}")

    def write_step(self, step, pause=0.3):
        for rank in range(RANKS):
            self.write_half(step, rank)
        time.sleep(pause)
        for rank in range(RANKS):
            self.write_rest(step, rank)

    def after_the_fact(self, target=None, *more):
        output = self.folder / "after"
        run = Run(["-tp", target or self.target, "-gp", self.dump / "golden", "-o", output, *more])
        self.assert_code(run, 0)
        return row_hashes(results_in(output)[0])

    def step_result(self, step):
        return self.the_result(self.output / f"step{step}")

    def rows(self, path):
        connection = sqlite3.connect(path)
        try:
            return connection.execute("SELECT * FROM tb_nodes ORDER BY id").fetchall()
        finally:
            connection.close()

    def check_whole(self):
        whole = results_in(self.output)
        self.assertEqual(len(whole), 1)
        self.assertEqual(row_hashes(whole[0]), self.after_the_fact())
        self.assertEqual(sorted(left_in(self.output)), sorted([whole[0].name, *[f"step{step}" for step in range(STEPS)]]))
        # The rows of a step are those of the whole.
        step_column = 19
        rows = self.rows(whole[0])
        for step in range(STEPS):
            self.assertEqual(self.rows(self.step_result(step)), [row for row in rows if row[step_column] == step])

    def test_results_arrive_while_the_job_writes(self):
        for processes in (0, 2):
            with self.subTest(processes=processes):
                process = self.follow(f"--until-step={STEPS - 1}", processes=processes)
                for step in range(STEPS):
                    self.write_step(step)
                    if step > 0:
                        self.wait_for(f"Step {step - 1} is complete", "the step before is complete")
                        self.assertIsNone(process.poll())
                        self.assertEqual(results_in(self.output), [])
                        if step == 1:
                            self.wait_for("First divergence so far: step 0", "at once")
                self.end(process)
                self.check_whole()
                shutil.rmtree(self.target)
                shutil.rmtree(self.output)
                shutil.rmtree(self.folder / "after")

    def test_ends_when_nothing_changes(self):
        process = self.follow("--idle-timeout=3")
        for step in range(STEPS):
            self.write_step(step, 0)
        self.end(process)
        self.check_whole()

    def test_ends_at_a_signal_with_what_is_done(self):
        process = self.follow()
        for step in range(2):
            self.write_step(step, 0)
        self.wait_for("Step 0 is complete", "first step")
        process.send_signal(signal.SIGTERM)
        self.end(process)
        steps = {row[19] for row in self.rows(results_in(self.output)[0])}
        self.assertIn(0, steps)
        self.assertEqual([name for name in left_in(self.output) if "partial" in name], [])

    def test_a_signal_before_anything_is_there(self):
        process = self.follow()
        self.wait_for("Waiting", "nothing there")
        process.send_signal(signal.SIGINT)
        stderr = self.end(process, 1)
        self.assertIn("no dump was complete", stderr)
        self.assertEqual(left_in(self.output), [])

    def test_a_killed_run_goes_on(self):
        process = self.follow()
        for step in range(2):
            self.write_step(step, 0)
        self.wait_for("Step 0 is complete", "first step")
        process.kill()
        self.end(process, -signal.SIGKILL)
        process = self.follow("--resume", f"--until-step={STEPS - 1}")
        self.end(process, 1)  # another selection of steps
        process = self.follow("--resume", "--idle-timeout=3")
        for step in range(2, STEPS):
            self.write_step(step, 0)
        self.end(process)
        self.assertEqual(row_hashes(results_in(self.output)[0]), self.after_the_fact())
        for step in range(STEPS):
            self.step_result(step)

    def test_a_killed_run_is_completed_after_the_job(self):
        process = self.follow()
        for step in range(2):
            self.write_step(step, 0)
        self.wait_for("Step 0 is complete", "first step")
        process.kill()
        self.end(process, -signal.SIGKILL)
        for step in range(2, STEPS):
            self.write_step(step, 0)
        run = Run(["-tp", self.target, "-gp", self.dump / "golden", "-o", self.output, "--resume"])
        self.assert_code(run, 0)
        self.assertIn("Continuing", run.stdout)
        self.assertEqual(row_hashes(results_in(self.output)[0]), self.after_the_fact())

    def test_ranks_without_steps(self):
        process = self.follow("--idle-timeout=4", golden=False)
        self.target.mkdir()
        shutil.copytree(self.dump / "target" / "step0" / "rank0", self.target / "rank0")
        time.sleep(0.5)
        shutil.copytree(self.dump / "target" / "step0" / "rank1", self.target / "rank1")
        self.end(process)
        output = self.folder / "after"
        self.assert_code(Run(["-tp", self.target, "-o", output]), 0)
        self.assertEqual(row_hashes(results_in(self.output)[0]), row_hashes(results_in(output)[0]))

    def test_a_broken_rank_is_told_and_the_others_are_there(self):
        process = self.follow("--idle-timeout=4")
        for step in range(STEPS):
            self.write_step(step, 0)
        (self.target / "step1" / "rank1" / "stack.json").unlink()
        stderr = self.end(process, 3)
        self.assertIn("step 1 rank 1", stderr)
        self.assertEqual(len(results_in(self.output)), 1)

    def test_a_dump_that_changes_is_compared_again(self):
        process = self.follow("--idle-timeout=5")
        for step in range(STEPS):
            self.write_step(step, 0)
        self.wait_for("Step 1 is complete", "second step")
        other = self.dump / "golden" / "step1" / "rank0" / "dump.json"
        shutil.copy(other, self.target / "step1" / "rank0" / "dump.json")
        self.end(process)
        self.assertTrue(any("compared again" in line for line in self.lines))
        self.assertEqual(row_hashes(results_in(self.output)[0]), self.after_the_fact())

    def test_it_sleeps(self):
        process = self.follow("--poll=0.5")
        self.write_step(0, 0)
        self.wait_for("Step 0 is complete", "first step")
        ticks = os.sysconf("SC_CLK_TCK")

        def cpu():
            fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / ticks

        before = cpu()
        time.sleep(5)
        self.assertLess(cpu() - before, 0.5, "a tenth of a core would be busy waiting")
        self.assertEqual(os.getpriority(os.PRIO_PROCESS, process.pid), 10)
        process.send_signal(signal.SIGUSR1)
        self.end(process)


class FollowUsage(ProgramTest):
    def test_what_does_not_go_together(self):
        for more, text in ((["--rank_size=2", "--tp=2", "--pp=1"], "--follow can't merge"), (["--settle=x"], "no number of seconds"),
                           (["--nice=20"], "from 0 to 19"), (["--until-step=-1"], "from 0 up"),
                           (["--steps=5", "--until-step=3"], "before all steps")):
            with self.subTest(more=more):
                run = Run(["-tp", self.folder, "-o", self.output, "--follow", *more])
                self.assert_code(run, 2)
                self.assertIn(text, run.stderr)
        run = Run(["-tp", self.case("structure") / "missing", "-o", self.output, "--settle=3"])
        self.assertIn("--settle has no effect without --follow", run.stdout)


if __name__ == "__main__":
    program_test.main()
