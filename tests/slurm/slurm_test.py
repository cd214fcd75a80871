#!/usr/bin/env python3
"""The batch scripts of scripts/slurm on a real Slurm that the test starts: several processes on two nodes, stop and resume, cancellation, a comparator
beside a training job.

    slurm_test.py --program msvis-mpi --source-dir DIR [unittest options]

Exit code 77: Slurm is not installed, nothing was tested.
"""

import argparse
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from slurm_cluster import SlurmCluster, missing_programs, wait_until

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
from row_identity import row_hashes  # noqa: E402

OPTIONS = None
CLUSTER = None
NOT_TESTED = 77
LAUNCHERS = ("srun", "mpirun")
# Long enough to be stopped in the middle of it.
MANY_RANKS = 1500


def query(path, text):
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return connection.execute(text).fetchall()
    finally:
        connection.close()


def results_in(directory):
    return sorted(Path(directory).glob("*.vis.db"))


def partial_files_in(directory):
    return sorted(Path(directory).glob("*.vis.db.partial"))


def programs_of(output):
    """The numbers of the processes that work for an output directory, the launchers not among them."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # it has ended
            if words[0].endswith(b"msvis-mpi") and str(output).encode() in words:
                found.append(int(entry.name))
    return found


def many_ranks(folder, number):
    """A dump of small ranks, all of the same files, without taking the space."""
    source = OPTIONS.testdata / "golden/distributed/p2p_build/target/rank0"
    first = folder / "rank0"
    shutil.copytree(source, first)
    for rank in range(1, number):
        directory = folder / f"rank{rank}"
        directory.mkdir()
        for file in first.iterdir():
            os.link(file, directory / file.name)


def serial_rows(output, target, golden, *arguments):
    """Of a run without Slurm and MPI."""
    command = [OPTIONS.program, "-tp", target, "-gp", golden, "-o", output, *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return row_hashes(results_in(output)[0])


class SlurmTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="case-", dir=CLUSTER.folder.parent))
        self.addCleanup(shutil.rmtree, self.folder)
        self.output = self.folder / "out"
        self.log = self.folder / "job.log"

    def case(self, name):
        return OPTIONS.testdata / "golden" / name

    def submit(self, script, *options, settings, arguments=()):
        everywhere = {"MSVIS_PROGRAM": OPTIONS.program, "MSVIS_OUTPUT": self.output}
        return CLUSTER.submit(OPTIONS.source_dir / "scripts/slurm" / script, "--time=10", f"--output={self.log}", f"--chdir={self.folder}", *options,
                              settings={**everywhere, **settings}, arguments=arguments)

    def serial_rows(self, target, golden, *arguments):
        return serial_rows(Path(tempfile.mkdtemp(prefix="serial-", dir=self.folder)), target, golden, *arguments)

    def the_result(self, output=None):
        found = results_in(output or self.output)
        self.assertEqual(len(found), 1, self.story())
        self.assertEqual(partial_files_in(output or self.output), [])
        return found[0]

    def assert_ended(self, job, state, code):
        try:
            ended = CLUSTER.wait_for_end(job)
        except TimeoutError as error:
            self.fail(f"{error}: {CLUSTER.job(job)}\n{self.story()}")
        self.assertEqual((ended["JobState"], ended["ExitCode"]), (state, f"{code}:0"), self.story())
        return ended

    def story(self):
        return (self.log.read_text(errors="replace") if self.log.exists() else "no output of the job\n") + CLUSTER.logs()


class Compare(SlurmTest):
    def test_same_rows_as_one_process(self):
        case = self.case("distributed/p2p_compare")
        expected = self.serial_rows(case / "target", case / "golden")
        for launcher in LAUNCHERS:
            with self.subTest(launcher=launcher):
                self.output = self.folder / launcher
                self.log = self.folder / f"{launcher}.log"
                settings = {"MSVIS_TARGET": case / "target", "MSVIS_GOLDEN": case / "golden", "MSVIS_LAUNCHER": launcher}
                job = self.submit("compare.sbatch", "--nodes=2", "--ntasks-per-node=2", "--cpus-per-task=2", settings=settings)
                self.assert_ended(job, "COMPLETED", 0)
                self.assertEqual(row_hashes(self.the_result()), expected)
                self.assertEqual(query(self.the_result(), "SELECT value FROM msvis_run WHERE key = 'processes'"), [("4",)])
                self.assertEqual(json.loads((self.output / "summary.json").read_text())["processes"], 4)

    def test_launcher_is_found_and_arguments_and_exit_code_pass(self):
        case = self.case("distributed/p2p_compare")
        settings = {"MSVIS_TARGET": case / "target", "MSVIS_GOLDEN": case / "golden"}
        job = self.submit("compare.sbatch", "--nodes=1", "--ntasks-per-node=2", "--cpus-per-task=1", settings=settings, arguments=["--fail-on=error", "--ranks", "0,1"])
        self.assert_ended(job, "FAILED", 5)
        self.assertEqual(query(self.the_result(), "SELECT DISTINCT rank FROM tb_nodes ORDER BY rank"), [(0,), (1,)])
        self.assertEqual(query(self.the_result(), "SELECT value FROM msvis_run WHERE key = 'processes'"), [("2",)])

    def test_missing_setting(self):
        job = self.submit("compare.sbatch", "--nodes=1", "--ntasks-per-node=1", "--cpus-per-task=1", settings={})
        self.assert_ended(job, "FAILED", 1)
        self.assertIn("MSVIS_TARGET", self.log.read_text())


class Resume(SlurmTest):
    """Many small ranks, compared with themselves; one thread for each of two processes on two nodes."""

    @classmethod
    def setUpClass(cls):
        shared = Path(tempfile.mkdtemp(prefix="ranks-", dir=CLUSTER.folder.parent))
        cls.addClassCleanup(shutil.rmtree, shared)
        cls.target = shared / "target"
        many_ranks(cls.target, MANY_RANKS)
        cls.expected = serial_rows(shared / "serial", cls.target, cls.target)

    def start(self, launcher="auto", *options):
        settings = {"MSVIS_TARGET": self.target, "MSVIS_GOLDEN": self.target, "MSVIS_LAUNCHER": launcher}
        return self.submit("resume.sbatch", "--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=1", *options, settings=settings, arguments=["--threads=1"])

    def wait_for_work(self):
        wait_until(lambda: any(path.stat().st_size > (4 << 20) for path in partial_files_in(self.output)), "the first megabytes of the partial file")

    def assert_stopped(self):
        wait_until(lambda: not programs_of(self.output), "the end of the processes")
        self.assertEqual(results_in(self.output), [], self.story())
        self.assertEqual(len(partial_files_in(self.output)), 1, self.story())

    def assert_same_rows(self):
        self.assertEqual(row_hashes(self.the_result()), self.expected)

    def assert_continued(self):
        self.assertRegex(self.log.read_text(), r"Continuing .*: [1-9]\d* .*done", "something was done before, and not again")
        self.assert_same_rows()

    def test_signal_requeues_and_the_run_continues(self):
        for launcher in LAUNCHERS:
            with self.subTest(launcher=launcher):
                self.output = self.folder / launcher
                self.log = self.folder / f"{launcher}.log"
                job = self.start(launcher)
                self.wait_for_work()
                # As --signal=B:USR1@... does, but now.
                CLUSTER.run("scancel", "--signal=USR1", "--batch", job)
                requeued = CLUSTER.wait_for_state(job, "PENDING", "COMPLETED", "FAILED")
                self.assertEqual((requeued["JobState"], requeued["Restarts"]), ("PENDING", "1"), self.story())
                self.assert_stopped()
                # Slurm would wait two minutes. Nodes refuse a job that comes again within the second in which it went.
                CLUSTER.run("scontrol", "update", f"JobId={job}", "StartTime=now+2")
                self.assert_ended(job, "COMPLETED", 0)
                self.assert_continued()

    def test_cancelled_job_is_not_requeued_and_can_be_continued(self):
        job = self.start()
        self.wait_for_work()
        CLUSTER.run("scancel", job)
        self.assertEqual(CLUSTER.wait_for_end(job)["JobState"], "CANCELLED")
        self.assert_stopped()
        self.assert_ended(self.start(), "COMPLETED", 0)
        self.assert_continued()

    def test_killed_processes_can_be_continued(self):
        job = self.start("mpirun")
        self.wait_for_work()
        for process in programs_of(self.output):
            os.kill(process, signal.SIGKILL)
        ended = CLUSTER.wait_for_end(job)
        self.assertEqual(ended["JobState"], "FAILED", self.story())
        self.assert_stopped()
        self.assert_ended(self.start("mpirun"), "COMPLETED", 0)
        self.assert_same_rows()  # nothing may have been committed so early

    def test_restarts_are_limited(self):
        settings = {"MSVIS_TARGET": self.target, "MSVIS_GOLDEN": self.target, "MSVIS_MOST_RESTARTS": "0"}
        job = self.submit("resume.sbatch", "--nodes=1", "--ntasks-per-node=1", "--cpus-per-task=1", settings=settings, arguments=["--threads=1"])
        self.wait_for_work()
        CLUSTER.run("scancel", "--signal=USR1", "--batch", job)
        self.assert_ended(job, "FAILED", 4)
        self.assert_stopped()
        self.assertIn("MSVIS_MOST_RESTARTS", self.log.read_text())


class Follow(SlurmTest):
    STEPS = 3
    RANKS = ("rank0", "rank1")

    def setUp(self):
        super().setUp()
        source = self.case("statistics/gpt_2ranks")
        self.target, self.golden = self.folder / "target", self.folder / "golden"
        for step in range(self.STEPS):
            shutil.copytree(source / "golden", self.golden / f"step{step}")
        self.source = source / "target"
        self.training = self.folder / "training.sh"
        # Writes what msProbe writes, not at once: the step's folders first, the large file last and in two pieces. The last step comes only when there is a
        # result of the first one.
        self.training.write_text(f"""#!/usr/bin/env bash
set -euo pipefail
for step in $(seq 0 {self.STEPS - 1}); do
  if [ "$step" -eq {self.STEPS - 1} ]; then
    timeout 60 bash -c 'until compgen -G "{self.output}/step0/*.vis.db"; do sleep 0.1; done'
  fi
  for rank in {' '.join(self.RANKS)}; do
    mkdir -p "{self.target}/step$step/$rank"
    cp "{self.source}/$rank/construct.json" "{self.source}/$rank/stack.json" "{self.target}/step$step/$rank/"
    head -c 1000 "{self.source}/$rank/dump.json" > "{self.target}/step$step/$rank/dump.json"
  done
  sleep 1
  for rank in {' '.join(self.RANKS)}; do
    tail -c +1001 "{self.source}/$rank/dump.json" >> "{self.target}/step$step/$rank/dump.json"
  done
done
exit ${{TRAINING_CODE:-0}}
""")
        self.training.chmod(0o755)

    def settings(self, **more):
        # The training's step takes all the cores of the job, as training does.
        return {"MSVIS_TRAINING": f"srun --ntasks=1 --nodes=1 --cpus-per-task=4 {self.training}", "MSVIS_TARGET": self.target, "MSVIS_GOLDEN": self.golden,
                "MSVIS_IDLE_TIMEOUT": "60", "MSVIS_THREADS": "1", **more}

    def submit_follow(self, arguments, **more):
        return self.submit("follow.sbatch", "--nodes=1", "--ntasks-per-node=1", "--cpus-per-task=4", settings=self.settings(**more), arguments=arguments)

    def test_steps_are_compared_while_training_writes(self):
        job = self.submit_follow(["--until-step", str(self.STEPS - 1), "--settle", "4", "--poll", "0.2"])
        self.assert_ended(job, "COMPLETED", 0)
        self.assertEqual(row_hashes(self.the_result()), self.serial_rows(self.target, self.golden))
        for step in range(self.STEPS):
            found = self.the_result(self.output / f"step{step}")
            self.assertEqual(row_hashes(found), self.serial_rows(self.target, self.golden, "--steps", str(step)))

    def test_exit_code_of_the_training_and_end_without_news(self):
        job = self.submit_follow(["--settle", "4", "--poll", "0.2"], TRAINING_CODE="7", MSVIS_IDLE_TIMEOUT="8")
        self.assert_ended(job, "FAILED", 7)
        self.the_result()


def main():
    global OPTIONS, CLUSTER
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True, type=lambda text: Path(text).resolve())
    parser.add_argument("--source-dir", required=True, type=lambda text: Path(text).resolve())
    OPTIONS, rest = parser.parse_known_args()
    OPTIONS.testdata = OPTIONS.source_dir / "testdata"
    if missing := missing_programs():
        print("Slurm is not installed here (" + ", ".join(missing) + "): its tests are skipped", file=sys.stderr)
        return NOT_TESTED
    # Settings for tests as root, and for more processes than cores; jobs inherit them.
    for key in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MCA_mpi_yield_when_idle", "OMPI_MCA_rmaps_base_oversubscribe"):
        os.environ[key] = "1"
    # Two nodes on one machine: shared memory would go by the machine's name and mix them up.
    os.environ.update(OMPI_MCA_btl="tcp,self", OMPI_MCA_btl_tcp_if_include="lo")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that all is stopped and removed
    with tempfile.TemporaryDirectory(prefix="msvis-slurm-") as folder:
        Path(folder).chmod(0o755)
        (Path(folder) / "slurm").mkdir()
        with SlurmCluster(Path(folder) / "slurm") as CLUSTER:
            return 0 if unittest.main(argv=[sys.argv[0], *rest], exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
