#!/usr/bin/env python3
"""Runs that are cut off, and what --resume makes of them.

    resume_test.py --program msvis-mpi --mpiexec mpiexec --testdata testdata [unittest options]
"""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

import program_test
from program_test import ProgramTest, Run, TIMEOUT, left_in, results_in, start
from row_identity import row_hashes

GENERATOR = Path(__file__).resolve().parent.parent / "tools" / "gen_dump.py"


def partial_in(directory):
    return [name for name in left_in(directory) if name.endswith(".partial")]


def children_of(process):
    """Numbers and names of all processes below one, from /proc."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            name, rest = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:].split()
            parents[int(entry.name)] = (int(rest[1]), name, rest[0])
    found = {}
    layer = [process.pid]
    while layer:
        layer = [pid for pid, (parent, _, state) in parents.items() if parent in layer and state != "Z"]
        found.update({pid: parents[pid][1] for pid in layer})
    return found


def generate(folder, *options):
    subprocess.run([sys.executable, str(GENERATOR), str(folder), *options], check=True, stdout=subprocess.DEVNULL)


class SharedDump(ProgramTest):
    @classmethod
    def setUpClass(cls):
        shared = tempfile.TemporaryDirectory(prefix="msvis-resume-test-")
        cls.addClassCleanup(shared.cleanup)
        cls.dump = Path(shared.name)


class Interrupted(SharedDump):
    """A 16-item run, cut off at random points in each way, then resumed."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for side, more in (("golden", []), ("target", ["--perturb", "noise=0.01@2"])):
            generate(cls.dump / side, "--ranks=16", "--layers=24", "--tp=4", "--pp=2", *more)
        output = cls.dump / "whole"
        begin = time.monotonic()
        run = Run(cls.command(output), 2)
        cls.seconds = time.monotonic() - begin
        assert run.code == 0, run.stderr
        cls.expected = row_hashes(results_in(output)[0])

    @classmethod
    def command(cls, output, *more):
        return ["-tp", cls.dump / "target", "-gp", cls.dump / "golden", "-o", output, "--threads=1", *more]

    def cut_off(self, interrupt, processes, codes=None, points=10):
        chance = random.Random(f"{interrupt.__name__} {processes}")
        done_before = []
        for point in range(points):
            with self.subTest(point=point):
                output = self.folder / f"out{point}"
                delay = chance.uniform(0.2, 1.0) * self.seconds
                process = start(self.command(output), processes, start_new_session=True)
                time.sleep(delay)
                below = children_of(process)
                interrupt(process)
                _, stderr = process.communicate(timeout=TIMEOUT)
                if codes and process.returncode not in codes:
                    self.fail(f"exit code {process.returncode}: {stderr}")
                if codes:
                    self.assertLessEqual(stderr.count("msvis-mpi: error:"), 1, stderr)
                self.none_left(below)
                if not results_in(output):
                    self.assertLessEqual(len(partial_in(output)), 1)
                    more = [] if partial_in(output) else ["--threads=2"]
                    run = Run(self.command(output, "--resume", *more), processes)
                    self.assert_code(run, 0)
                    continued = re.search(r"Continuing .*: (\d+) \(step, rank\) pairs? of 16 done", run.stdout)
                    if continued:
                        done_before.append(int(continued.group(1)))
                self.assertEqual(row_hashes(self.the_result(output)), self.expected)
        return done_before

    def none_left(self, processes):
        deadline = time.monotonic() + 20
        alive = processes
        while alive and time.monotonic() < deadline:
            time.sleep(0.05)
            alive = {pid: name for pid, name in processes.items() if self.is_alive(pid, name)}
        self.assertEqual(alive, {}, "processes are left behind")

    @staticmethod
    def is_alive(pid, name):
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return False
        return text[text.index("(") + 1:text.rindex(")")] == name and text[text.rindex(")") + 2] != "Z"

    def workers(self, process):
        """The processes of ours; itself without a launcher."""
        name = Path(program_test.OPTIONS.program).name[:15]
        return [pid for pid, its in children_of(process).items() if its == name] or [process.pid]

    def kill_job(self, process):
        os.killpg(process.pid, signal.SIGKILL)
        for pid in self.workers(process):  # mpirun gives each process a group of its own
            self.send(pid, signal.SIGKILL)

    def kill_launcher(self, process):
        process.kill()

    def kill_one(self, process):
        self.send(random.choice(self.workers(process)), signal.SIGKILL)

    def ask_all(self, process):
        for pid in self.workers(process):
            self.send(pid, signal.SIGUSR1)

    def ask_last(self, process):
        self.send(max(self.workers(process)), signal.SIGUSR1)

    def terminate_launcher(self, process):
        process.terminate()

    @staticmethod
    def send(pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    def test_kill_of_the_job(self):
        self.assertGreater(len(self.cut_off(self.kill_job, 2)), 0, "no run was continued")

    def test_kill_of_the_launcher(self):
        self.cut_off(self.kill_launcher, 2, points=2)

    def test_kill_of_one_process(self):
        self.cut_off(self.kill_one, 2)

    def test_kill_without_launcher(self):
        self.cut_off(self.kill_one, 0, points=2)

    def test_usr1_to_the_processes(self):
        self.assertTrue(any(0 < done < 16 for done in self.cut_off(self.ask_all, 2, codes=(0, 4))))

    def test_usr1_to_one_process_of_five(self):
        self.cut_off(self.ask_last, 5, codes=(0, 4), points=2)

    def test_usr1_without_launcher(self):
        self.cut_off(self.ask_all, 0, codes=(0, 4), points=2)

    def test_term_to_the_launcher(self):
        self.cut_off(self.terminate_launcher, 2)


class Resume(SharedDump):
    """What --resume accepts and refuses. Rank 3 is so large that the others are done long before it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        generate(cls.dump / "target", "--ranks=3", "--layers=1")
        generate(cls.dump / "large", "--ranks=1", "--layers=300", "--layout=ranks")
        (cls.dump / "large" / "rank0").rename(cls.dump / "target" / "rank3")

    def four_ranks(self):
        case = self.folder / "case"
        for side in ("target", "golden"):
            shutil.copytree(self.dump / "target", case / side, copy_function=os.link)
        return case

    @staticmethod
    def rewrite(file, text):
        file.unlink()  # it is a link
        file.write_text(text)

    def start_until_others_are_done(self, case, *more):
        process = start(self.arguments(case, None, "--threads=2", *more))
        told = ""
        while len(re.findall(r"\] (?:Finished|step 0 rank \d)", told)) < 3:
            line = process.stdout.readline()
            self.assertNotEqual(line, "", f"the run ended too soon: {told}")
            told += line
        return process

    def unfinished(self, case, *more):
        process = self.start_until_others_are_done(case, *more)
        process.send_signal(signal.SIGUSR1)
        _, stderr = process.communicate(timeout=TIMEOUT)
        self.assertEqual(process.returncode, 4, stderr)
        self.assertEqual(len(partial_in(self.output)), 1)

    def test_a_kill_keeps_what_was_committed(self):
        case = self.four_ranks()
        process = self.start_until_others_are_done(case)
        time.sleep(0.3)  # the writer has nothing to do but to commit
        process.kill()
        process.communicate(timeout=TIMEOUT)
        self.assertEqual(results_in(self.output), [], "rank 3 is too small for this test")
        run = Run(self.arguments(case, None, "--resume"))
        self.assert_code(run, 0)
        self.assertRegex(run.stdout, r"Continuing .*: [123] \(step, rank\) pairs? of 4 done")
        self.assertRegex(run.stdout, r"done again now: .*step 0 rank 3")

    def test_lost_items_are_named(self):
        case = self.four_ranks()
        whole = self.folder / "whole"
        self.assert_code(Run(self.arguments(case, whole)), 0)
        self.unfinished(case)
        run = Run(self.arguments(case, None, "--resume"), 2)
        self.assert_code(run, 0)
        self.assertRegex(run.stdout, r"done again now: .*step 0 rank 3")
        self.assertEqual(row_hashes(self.the_result()), row_hashes(self.the_result(whole)))
        self.assertIn("4 ", run.stderr)

    def test_other_options_are_refused(self):
        case = self.four_ranks()
        self.unfinished(case)
        run = Run(self.arguments(case, None, "--resume", "-oc"))
        self.assert_code(run, 1)
        self.assertIn("-oc was 'no', now 'yes'", run.stderr)
        self.assertEqual(len(partial_in(self.output)), 1)

    def test_changed_input_is_refused(self):
        case = self.four_ranks()
        self.unfinished(case)
        file = case / "golden" / "rank0" / "dump.json"
        self.rewrite(file, file.read_text() + " ")
        run = Run(self.arguments(case, None, "--resume"))
        self.assert_code(run, 1)
        self.assertIn("step 0 rank 0: golden dump.json was", run.stderr)

    def test_lost_or_new_rank_is_refused(self):
        case = self.four_ranks()
        self.unfinished(case)
        shutil.copytree(case / "target" / "rank0", case / "target" / "rank9")
        shutil.copytree(case / "golden" / "rank0", case / "golden" / "rank9")
        self.assertIn("step 0 rank 9 is new", Run(self.arguments(case, None, "--resume")).stderr)
        for side in ("target", "golden"):
            shutil.rmtree(case / side / "rank9")
            shutil.rmtree(case / side / "rank1")
        self.assertIn("step 0 rank 1 is no longer part", Run(self.arguments(case, None, "--resume")).stderr)

    def test_nothing_to_resume_begins_anew(self):
        run = Run(self.arguments(self.four_ranks(), None, "--resume"))
        self.assert_code(run, 0)
        self.assertIn("begins anew", run.stdout)

    def test_without_resume_it_is_left_alone(self):
        case = self.four_ranks()
        self.unfinished(case)
        run = Run(self.arguments(case))
        self.assert_code(run, 0)
        self.assertIn("--resume continues it", run.stdout)
        self.assertEqual(len(results_in(self.output)), 1)
        self.assertEqual(len(partial_in(self.output)), 1)

    def test_damaged_or_foreign_files(self):
        case = self.four_ranks()
        self.output.mkdir()
        partial = self.output / "compare_20260101000000.vis.db.partial"
        for content in (b"no database", b"SQLite format 3\0" + bytes(5000)):
            with self.subTest(content=content[:20]):
                partial.write_bytes(content)
                run = Run(self.arguments(case, None, "--resume"))
                self.assert_code(run, 1)
                self.assertIn(partial.name, run.stderr)
                self.assertIn("delete it", run.stderr)

    def test_interrupted_before_anything_was_written(self):
        self.output.mkdir()
        (self.output / "compare_20260101000000.vis.db.partial").touch()
        run = Run(self.arguments(self.four_ranks(), None, "--resume"))
        self.assert_code(run, 0)
        self.assertIn("before anything was done", run.stdout)
        self.the_result()

    def test_a_failed_rank_is_tried_again(self):
        case = self.four_ranks()
        broken = case / "target" / "rank0" / "dump.json"
        text = broken.read_text()
        self.rewrite(broken, text[:100])
        self.unfinished(case)
        self.rewrite(broken, text)
        self.assert_code(Run(self.arguments(case, None, "--resume")), 0)
        self.the_result()

    def test_of_two_the_newest_that_fits(self):
        case = self.four_ranks()
        self.unfinished(case, "-oc")
        older = self.output / partial_in(self.output)[0]
        older.rename(self.output / "compare_20260101000000.vis.db.partial")
        self.unfinished_beside(case)
        run = Run(self.arguments(case, None, "--resume", "-oc"))
        self.assert_code(run, 0)
        self.assertEqual([path.name for path in results_in(self.output)], ["compare_20260101000000.vis.db"])

    def unfinished_beside(self, case):
        elsewhere, self.output = self.output, self.folder / "second"
        self.unfinished(case)
        for name in partial_in(self.output):
            (self.output / name).rename(elsewhere / name)
        self.output = elsewhere

    def test_one_that_is_in_work_is_left_alone(self):
        case = self.four_ranks()
        process = self.start_until_others_are_done(case)
        process.send_signal(signal.SIGSTOP)
        try:
            run = Run(self.arguments(case, None, "--resume"))
            self.assert_code(run, 1)
            self.assertIn("another run has", run.stderr)
        finally:
            process.kill()
            process.communicate(timeout=TIMEOUT)


class Memory(SharedDump):
    """Process 0 holds no more for many ranks than for few of the same size."""

    def peak(self, ranks, processes):
        case = self.folder / f"ranks{ranks}"
        for rank in range(ranks):
            shutil.copytree(self.dump / f"rank{rank % 4}", case / f"rank{rank}", copy_function=os.link)
        output = self.folder / f"out{ranks}-{processes}"
        process = start(["-tp", case, "-gp", case, "-o", output, "--threads=1"], processes)
        name = Path(program_test.OPTIONS.program).name[:15]
        peak = 0
        while process.poll() is None:
            for pid in [pid for pid, its in children_of(process).items() if its == name] or [process.pid]:
                try:
                    status = Path(f"/proc/{pid}/status").read_text()
                except OSError:
                    continue
                found = re.search(r"VmHWM:\s+(\d+) kB", status)
                peak = max(peak, int(found.group(1)) if found else 0)
            time.sleep(0.005)
        _, stderr = process.communicate()
        self.assertEqual(process.returncode, 0, stderr)
        shutil.rmtree(output)
        shutil.rmtree(case)
        return peak

    def test_four_and_sixty_four_ranks(self):
        generate(self.dump, "--ranks=4", "--layers=48", "--tp=4", "--layout=ranks")
        for processes in (0, 2):
            with self.subTest(processes=processes):
                few = self.peak(4, processes)
                many = self.peak(64, processes)
                self.assertGreater(few, 10_000)
                self.assertLess(many, 1.1 * few, f"{few} kB with 4 ranks, {many} kB with 64")


if __name__ == "__main__":
    program_test.main()
