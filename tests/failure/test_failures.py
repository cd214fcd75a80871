#!/usr/bin/env python3
"""What the program does with bad input and bad surroundings, by its command line.

usage: test_failures.py --binary build/msvis-mpi --testdata testdata --np 0|N [unittest options]

One broken (step, rank) must not cost the others; one error names step, rank, side, file and cause; the exit code tells; nothing is left over.
"""
import argparse
import json
import os
import pathlib
import random
import resource
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))
import visdb_check  # noqa: E402

ARGUMENTS = None
NOBODY = 65534


def run(*arguments, np=None, environment=None, preexec=None, timeout=120):
    np = ARGUMENTS.np if np is None else np
    command = [ARGUMENTS.binary] if np == 0 else ["mpirun", "--oversubscribe", "-n", str(np), ARGUMENTS.binary]
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1", **(environment or {}))
    return subprocess.run(command + [str(a) for a in arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          errors="replace", timeout=timeout, preexec_fn=preexec, check=False)


class Case(unittest.TestCase):
    """Two ranks, of which rank 1 of the target is going to be broken."""

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="msvis failure é "))
        source = pathlib.Path(ARGUMENTS.testdata) / "golden/statistics/gpt_2ranks"
        for side in ("target", "golden"):
            shutil.copytree(source / side, self.dir / side)
        self.rank = self.dir / "target/rank1"
        self.out = self.dir / "out"

    def tearDown(self):
        for path in [self.dir, *self.dir.rglob("*")]:
            if path.is_dir() and not path.is_symlink():
                os.chmod(path, 0o755)
        shutil.rmtree(self.dir, ignore_errors=True)

    def compare(self, *more, **how):
        return run("-tp", self.dir / "target", "-gp", self.dir / "golden", "-o", self.out, *more, **how)

    def files(self):
        return sorted(p.name for p in self.out.iterdir()) if self.out.is_dir() else []

    def result(self):
        files = self.files()
        self.assertEqual(len(files), 1, files)
        self.assertRegex(files[0], r"^compare_\d{14}\.vis\.db$")
        self.assertEqual(visdb_check.run(str(self.out / files[0])), [])
        return sqlite3.connect(f"file:{self.out / files[0]}?mode=ro", uri=True)

    def assert_rank_failed(self, done, file, cause, side="target"):
        """Exit code 3; rank 0 is whole, rank 1 has no rows, the error says where and why."""
        log = done.stdout + done.stderr
        self.assertEqual(done.returncode, 3, log)
        errors = [line for line in done.stdout.splitlines() if "[ERROR]" in line]
        self.assertEqual(len(errors), 1, log)
        self.assertIn(f"step 0 rank 1 {side}: ", errors[0])
        self.assertIn(file, errors[0])
        self.assertRegex(errors[0], cause)
        db = self.result()
        self.assertEqual(db.execute("SELECT rank_list, step_list FROM tb_config").fetchall(), [("[0]", "[0]")])
        self.assertEqual(db.execute("SELECT DISTINCT rank FROM tb_nodes").fetchall(), [(0,)])
        self.assertEqual(db.execute("SELECT count(*) FROM tb_nodes").fetchone()[0], 154)
        self.assertEqual(db.execute("SELECT rank, status FROM msvis_item ORDER BY rank").fetchall(), [(0, "done"), (1, "failed")])
        self.assertIn(file, done.stderr)  # the summary
        return db


class BrokenRank(Case):
    def test_missing_file(self):
        for name in ("dump.json", "stack.json", "construct.json"):
            with self.subTest(name):
                kept = (self.rank / name).read_bytes()
                (self.rank / name).unlink()
                self.assert_rank_failed(self.compare(), name, "(?i)no such file|missing|does not exist")
                (self.rank / name).write_bytes(kept)
                shutil.rmtree(self.out)

    def test_empty_rank_directory(self):
        for name in ("dump.json", "stack.json", "construct.json"):
            (self.rank / name).unlink()
        self.assert_rank_failed(self.compare(), ".json", "(?i)no such file|missing|does not exist")

    def damage(self, name, content, cause):
        kept = (self.rank / name).read_bytes()
        (self.rank / name).write_bytes(content(kept))
        self.assert_rank_failed(self.compare(), name, cause)
        (self.rank / name).write_bytes(kept)
        shutil.rmtree(self.out)

    def test_empty_file(self):
        for name in ("dump.json", "stack.json", "construct.json"):
            with self.subTest(name):
                self.damage(name, lambda kept: b"", "(?i)empty|JSON")

    def test_truncated_file(self):
        for name in ("dump.json", "stack.json", "construct.json"):
            with self.subTest(name):
                self.damage(name, lambda kept: kept[:len(kept) // 2], r"\(byte \d+\)|JSON")

    def test_not_utf8(self):
        for name in ("dump.json", "stack.json", "construct.json"):
            with self.subTest(name):
                self.damage(name, lambda kept: kept.replace(b"forward", b"forw\xff\xferd", 1), "(?i)utf-?8")

    def test_wrong_type(self):
        self.damage("dump.json", lambda kept: b"[1, 2]", "object")
        self.damage("dump.json", lambda kept: b"7", "object")
        self.damage("stack.json", lambda kept: b"[]", "object")
        self.damage("construct.json", lambda kept: b"[]", "L0 or mix")
        self.damage("construct.json", lambda kept: b"{}", "L0 or mix")
        self.damage("construct.json", lambda kept: b'{"Module.a.A.forward.0": 7}', r"Module\.a\.A\.forward\.0")
        self.damage("dump.json", lambda kept: b'{"task": "statistics", "framework": "pytorch", "data": []}', "data")

    def test_too_deep(self):
        deep = b'{"task": "statistics", "framework": "pytorch", "data": {"Torch.f.0.forward": {"input_args": ' + b"[" * 5000 + b"]" * 5000 + b"}}}"
        self.damage("dump.json", lambda kept: deep, "(?i)deep|nest|level")

    def test_directory_in_place_of_a_file(self):
        (self.rank / "dump.json").unlink()
        (self.rank / "dump.json").mkdir()
        self.assert_rank_failed(self.compare(), "dump.json", "(?i)directory|regular")

    def test_pipe_in_place_of_a_file(self):
        (self.rank / "dump.json").unlink()
        os.mkfifo(self.rank / "dump.json")
        self.assert_rank_failed(self.compare(timeout=60), "dump.json", "(?i)regular|pipe")

    def test_golden_side(self):
        self.rank = self.dir / "golden/rank1"
        (self.rank / "construct.json").unlink()
        self.assert_rank_failed(self.compare(), "construct.json", "(?i)no such file|missing|does not exist", side="golden")

    def test_task_of_one_rank_differs(self):
        for side in ("target", "golden"):
            path = self.dir / side / "rank1/dump.json"
            dump = json.loads(path.read_text())
            dump["task"] = "acc_check"
            path.write_text(json.dumps(dump))
        done = self.compare()
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn("acc_check", done.stderr)
        self.result()

    def test_unreadable_file(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to become somebody else")
        (self.rank / "dump.json").chmod(0)
        self.out.mkdir(mode=0o755)
        for path in [self.dir, self.out]:
            os.chown(path, NOBODY, NOBODY)
        done = self.compare(np=0, preexec=lambda: (os.setgid(NOBODY), os.setuid(NOBODY)))
        self.assert_rank_failed(done, "dump.json", "(?i)permission")

    def test_all_ranks_broken(self):
        for rank in ("rank0", "rank1"):
            (self.dir / "target" / rank / "construct.json").write_text("{")
        done = self.compare()
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("construct.json", done.stderr)
        self.assertEqual(self.files(), [])

    def test_fails_in_both_modes_of_a_build(self):
        (self.rank / "dump.json").write_text("{")
        for mode in ("reference", "standard"):
            done = run("-tp", self.dir / "target", "-o", self.out, f"--compat={mode}")
            self.assertEqual(done.returncode, 3, done.stdout)
            self.assertRegex(self.files()[0], r"^build_\d{14}\.vis\.db$")
            shutil.rmtree(self.out)


class Tolerated(Case):
    def assert_complete(self, done):
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return self.result()

    def test_repeated_keys(self):
        text = (self.rank / "construct.json").read_text()
        name = next(iter(json.loads(text)))
        (self.rank / "construct.json").write_text("{" + json.dumps(name) + ': "Module.nowhere.N.forward.0", ' + text.lstrip()[1:])
        db = self.assert_complete(self.compare())
        self.assertEqual(db.execute("SELECT count(*) FROM tb_nodes WHERE node_name LIKE 'Module.nowhere%'").fetchone()[0], 0)

    def test_cycles_and_dangling_parents(self):
        text = (self.rank / "construct.json").read_text().rstrip()[:-1]
        text += ', "Torch.a.0.forward": "Torch.b.0.forward", "Torch.b.0.forward": "Torch.a.0.forward", "Torch.c.0.forward": "Module.lost.L.forward.0"}'
        (self.rank / "construct.json").write_text(text)
        done = self.compare()
        db = self.assert_complete(done)
        self.assertIn("cycle", done.stdout)
        self.assertIn("Module.lost.L.forward.0", done.stdout)
        rows = db.execute("SELECT count(*) FROM tb_nodes WHERE node_name IN ('Torch.a.0.forward', 'Torch.b.0.forward', 'Torch.c.0.forward')").fetchone()
        self.assertEqual(rows[0], 3)

    def test_moved_dump(self):
        self.dir.joinpath("target").rename(self.dir / "moved")
        done = run("-tp", self.dir / "moved", "-gp", self.dir / "golden", "-o", self.out)
        self.assert_complete(done)

    def test_read_only_input(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to become somebody else")
        for path in [*self.dir.joinpath("target").rglob("*"), self.dir / "target"]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        self.out.mkdir(mode=0o755)
        for path in [self.dir, self.out]:
            os.chown(path, NOBODY, NOBODY)
        self.assert_complete(self.compare(np=0, preexec=lambda: (os.setgid(NOBODY), os.setuid(NOBODY))))

    def test_same_files_on_both_sides(self):
        shutil.rmtree(self.dir / "golden")
        os.symlink(self.dir / "target", self.dir / "golden")
        done = self.compare("--fail-on=warning")
        self.assert_complete(done)

    def test_existing_result_draws_a_warning(self):
        self.out.mkdir()
        (self.out / "compare_20200101000000.vis.db").write_bytes(b"")
        done = self.compare()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\[WARNING\].*vis\.db")

    def test_umask(self):
        done = self.compare(preexec=lambda: os.umask(0))
        self.assert_complete(done)
        self.assertEqual(stat.S_IMODE(self.out.stat().st_mode), 0o750)
        self.assertEqual(stat.S_IMODE((self.out / self.files()[0]).stat().st_mode), 0o640)


class Output(Case):
    def assert_refused(self, done, code, pattern):
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        ours = [line for line in done.stderr.splitlines() if line.startswith("msvis-mpi")]  # mpirun adds words of its own
        self.assertEqual(len(ours), 1, done.stderr)
        self.assertRegex(ours[0], pattern)

    def test_output_is_a_file(self):
        self.out.write_text("")
        self.assert_refused(self.compare(), 1, "out")

    def test_output_not_writable(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to become somebody else")
        os.chown(self.dir, NOBODY, NOBODY)
        self.out.mkdir(mode=0o555)
        # Checked before any work: the target does not even exist.
        done = run("-tp", self.dir / "no such", "-gp", self.dir / "golden", "-o", self.out, np=0,
                   preexec=lambda: (os.setgid(NOBODY), os.setuid(NOBODY)))
        self.assert_refused(done, 1, "(?i)out.*(permission|writ)")

    def test_full_disk(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        done = self.compare(preexec=limit, np=0)
        self.assert_refused(done, 1, r"vis\.db")
        self.assertEqual(self.files(), [])

    def test_nothing_compared(self):
        for path in self.dir.joinpath("golden").rglob("*.json"):
            path.write_text(path.read_text().replace("Module.", "Module.other.").replace("Functional.", "Functional.x_").replace("Tensor.", "Tensor.x_")
                            .replace("Torch.", "Torch.x_").replace("Distributed.", "Distributed.x_"))
        done = self.compare()
        self.assert_refused(done, 1, "nothing was compared")
        self.assertEqual(self.files(), [])
        self.assertEqual(self.compare("--compat=reference").returncode, 0)

    def test_bad_mapping_file(self):
        mapping = self.dir / "mapping.yaml"
        for text in ("TopLayer: [1, 2]\n", "TopLayer:\n  a: 7\n", "- x\n", "", None):
            if text is None:
                mapping.unlink()
            else:
                mapping.write_text(text)
            self.assert_refused(self.compare("-lm", mapping, np=0), 1, "mapping.yaml")
            self.assertEqual(self.files(), [])
            # The reference warns and goes on by equal names.
            done = self.compare("-lm", mapping, "--compat=reference", np=0)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"\[WARNING\].*mapping\.yaml")
            self.assertEqual(self.result().execute("SELECT count(*) FROM tb_nodes WHERE matched_node_link = '[]'").fetchone()[0], 0)
            shutil.rmtree(self.out)

    def test_missing_target(self):
        shutil.rmtree(self.dir / "target")
        self.assert_refused(self.compare(), 1, "target")
        self.assertEqual(self.files(), [])

    def test_summary_not_writable(self):
        done = self.compare("--summary-json", self.dir / "no/such/summary.json")
        self.assert_refused(done, 1, "summary")
        self.assertEqual(self.files(), [])

    def test_metrics_file_not_possible(self):
        # Told before any work: the target does not even exist.
        shutil.rmtree(self.dir / "target")
        folder = self.dir / "folder.h5"
        folder.mkdir()
        pipe = self.dir / "pipe.csv"
        os.mkfifo(pipe)
        for file, why in ((self.dir / "no/such/table.h5", "existing, writable directory"), (folder, "no regular file"), (pipe, "no regular file"),
                          (self.dir / ("x" * 300 + ".csv"), "too long"), ("/proc/table.h5", "existing, writable directory")):
            self.assert_refused(self.compare("--metrics", file), 1, f"{os.path.basename(file)[:50]}.*{why}")
            self.assertEqual(self.files(), [])
        self.assertTrue(pipe.is_fifo())
        if os.geteuid() == 0:
            read_only = self.dir / "read only"
            read_only.mkdir(mode=0o555)
            os.chown(self.dir, NOBODY, NOBODY)
            done = self.compare("--metrics", read_only / "table.h5", np=0, preexec=lambda: (os.setgid(NOBODY), os.setuid(NOBODY)))
            self.assert_refused(done, 1, "table.h5.*[Pp]ermission")

    def test_metrics_format_unknown(self):
        for name in ("table", "table.xlsx", "table.h5.gz", ""):
            done = self.compare("--metrics", name)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--metrics", done.stderr)
        self.assertFalse(self.out.exists())

    def test_full_disk_under_the_metrics(self):
        # Rows of the table that are much longer than the parameters in the result file.
        dump = {"task": "structure", "framework": "pytorch", "data": {"Torch.f.0.forward": {"input_args": [None] * 4000, "output": []}}}
        source = self.dir / "wide"
        source.mkdir()
        (source / "dump.json").write_text(json.dumps(dump))
        (source / "construct.json").write_text('{"Torch.f.0.forward": null}')
        (source / "stack.json").write_text("{}")
        tables = self.dir / "tables"
        tables.mkdir()
        done = run("-tp", source, "-o", self.out, "--metrics", tables / "table.csv")
        self.assertEqual(done.returncode, 0, done.stderr)
        result = self.out / self.files()[0]
        size = (tables / "table.csv").stat().st_size
        self.assertGreater(size, result.stat().st_size)
        result.unlink()
        (tables / "table.csv").unlink()

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (size - 1000, size - 1000))
        done = run("-tp", source, "-o", self.out, "--metrics", tables / "table.csv", np=0, preexec=limit)
        # The result does not suffer.
        self.assert_refused(done, 1, r"--metrics.*table\.csv.*too large.*complete: .*vis\.db")
        self.assertEqual(len(self.files()), 1)
        self.assertEqual(visdb_check.run(str(self.out / self.files()[0])), [])
        self.assertEqual(list(tables.iterdir()), [])

    def test_fail_on(self):
        self.assertEqual(self.compare("--fail-on=error").returncode, 5)
        self.assertEqual(self.compare("--fail-on=warning").returncode, 5)
        (self.rank / "dump.json").unlink()
        self.assertEqual(self.compare("--fail-on=error").returncode, 3)

    def test_wrong_usage(self):
        for arguments in (["-tp", self.dir], ["--nonsense"], ["-tp", self.dir, "-o", self.out, "--threads", "x"],
                          ["-tp", self.dir, "-o", self.out, "--rank_size", "2", "2", "--tp", "2", "--pp", "1"]):
            done = run(*arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--help", done.stderr)
        self.assertFalse(self.out.exists())


class Merging(Case):
    """Ranks that are merged (--rank_size)."""

    def setUp(self):
        super().setUp()
        source = pathlib.Path(ARGUMENTS.testdata) / "golden/merge/tp2dp2_vs_dp2"
        for side in ("target", "golden"):
            shutil.rmtree(self.dir / side)
            shutil.copytree(source / side, self.dir / side)
        self.rank = self.dir / "target/rank3"
        self.sizes = ["--rank_size", "4", "2", "--tp", "2", "1", "--pp", "1", "1"]

    def build(self, *more, target="target"):
        return run("-tp", self.dir / target, "-o", self.out, *more)

    def assert_stops(self, done, code, *parts):
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        for part in parts:
            self.assertIn(part, done.stderr)
        self.assertEqual(self.files(), [])

    def test_counts_of_values(self):
        for arguments in (["--rank_size", "4"], ["--rank_size", "4", "--tp", "2"], ["--rank_size", "4", "2", "--tp", "2", "1", "--pp", "1", "1"],
                          ["--rank_size", "4", "--tp", "2", "2", "--pp", "1"], ["--rank_size", "4", "--tp", "2", "--pp", "1", "--vpp", "1", "1", "1"],
                          ["--rank_size", "four", "--tp", "2", "--pp", "1"], ["--rank_size", "4", "--tp", "2", "--pp", "1", "--ranks", "0"]):
            self.assert_stops(self.build(*arguments), 2, "--help")
        self.assert_stops(self.compare("--rank_size", "4", "--tp", "2", "--pp", "1"), 2, "2 values in a comparison")

    def test_sizes(self):
        for arguments, part in ((["8", "2", "1"], "--rank_size says 8"), (["4", "3", "1"], "can't be divided by --tp 3"), (["4", "8", "1"], "larger than"),
                                (["4", "4", "2"], "is more than --rank_size 4"), (["4", "0", "1"], "must be at least 1"), (["-4", "1", "1"], "must be at least 1"),
                                (["4", "2", "1", "--vpp", "2"], "at least two pipeline stages"), (["4", "2", "1", "--order", "Tp"], "lower-case"),
                                (["4", "2", "1", "--order", "tp-xx"], "is no dimension"), (["4", "2", "2", "--order", "tp-dp"], "does not name pp"),
                                (["4", "2", "1", "--cp", "4"], "--cp 4"), (["4", "2", "1", "--ep", "3"], "--ep 3")):
            ranks, tp, pp, *more = arguments
            with self.subTest(arguments):
                self.assert_stops(self.build("--rank_size", ranks, "--tp", tp, "--pp", pp, *more), 1, part, "target (-tp)")

    def test_a_rank_is_not_there(self):
        self.rank.rename(self.dir / "target/rank4")
        self.assert_stops(self.compare(*self.sizes), 1, "has no rank 3")

    def test_unequal_numbers_of_graphs_with_the_reference(self):
        done = self.compare("--rank_size", "4", "2", "--tp", "2", "2", "--pp", "1", "1", "--compat=reference")
        self.assert_stops(done, 1, "2 graphs of the target", "1 of the golden")

    def test_json(self):
        self.assert_stops(self.compare(*self.sizes, "--file_type", "json"), 1, "can't be used with -gp")
        done = self.build("--rank_size", "1", "--tp", "1", "--pp", "1", "--file_type", "json", target="target/rank0")
        self.assert_stops(done, 1, "dump of a single rank")

    def test_a_broken_rank_costs_its_replica_only(self):
        (self.rank / "dump.json").write_text("{")
        done = self.compare(*self.sizes)
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        errors = [line for line in done.stdout.splitlines() if "[ERROR]" in line]
        self.assertEqual(len(errors), 1, errors)
        self.assertIn("step 0 rank 2 target: ", errors[0])
        self.assertIn("rank3", errors[0])
        self.assertEqual(self.result().execute("SELECT DISTINCT rank FROM tb_nodes").fetchall(), [(0,)])

    def test_damaged_ranks(self):
        """Whatever a rank holds, the program ends in order."""
        source = random.Random(5)
        original = {file: file.read_bytes() for file in self.dir.glob("*/rank*/*.json")}
        words = [b"layers.9999999999999999999", b"null", b"-1", b"[[[[", b"{}", b'"nan"', b"1e999", b"Module.1", b"_rank1", b"experts.7", b".parameters_grad", b""]
        for turn in range(40):
            damaged = source.sample(sorted(original), 2)
            for file in damaged:
                text = bytearray(original[file])
                for _ in range(source.choice((1, 3, 10))):
                    at = source.randrange(len(text))
                    if source.random() < 0.5:
                        text[at] = source.randrange(256)
                    else:  # something else in the place of a name or a number
                        end = min(len(text), at + source.randrange(1, 40))
                        text[at:end] = source.choice(words)
                file.write_bytes(bytes(text))
            more = source.choice(([], ["--compat=reference"], ["-oc"], ["--cp", "2", "1", "--vpp", "1"]))
            sizes = self.sizes if "--cp" not in more else ["--rank_size", "4", "2", "--tp", "1", "1", "--pp", "2", "1"]
            if "--cp" in more:
                sizes[2] = "2"
            done = self.compare(*sizes, *more, np=0)
            self.assertIn(done.returncode, (0, 1, 3), f"turn {turn}: {more} {done.stdout[-2000:]}{done.stderr[-2000:]}")
            for file in damaged:
                file.write_bytes(original[file])
            shutil.rmtree(self.out, ignore_errors=True)

    def test_a_broken_rank_costs_its_json_only(self):
        (self.rank / "construct.json").write_text("[]")
        done = self.build("--rank_size", "4", "--tp", "2", "--pp", "1", "--file_type", "json")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertEqual(sorted(str(p.relative_to(self.out)) for p in self.out.rglob("*.*")),
                         [f"step0/rank0/{name}.json" for name in ("construct", "dump", "stack")])
        self.assertEqual(stat.S_IMODE((self.out / "step0/rank0/dump.json").stat().st_mode), 0o640)

    def test_other_data_in_other_order(self):
        """Unequal numbers of replicas are paired by micro-batches, which must have the same input."""
        for rank in ("rank0", "rank1"):
            file = self.dir / "golden" / rank / "dump.json"
            dump = json.loads(file.read_text())
            for name, entry in dump["data"].items():
                if name.startswith("Module.0.Float16Module.forward"):
                    entry["input_args"][0].update(Max=3.0, Min=1.0, dtype="torch.int64")
            file.write_text(json.dumps(dump))
        shutil.rmtree(self.dir / "golden/rank1")
        for rank in ("rank0", "rank1", "rank2", "rank3"):
            file = self.dir / "target" / rank / "dump.json"
            dump = json.loads(file.read_text())
            for name, entry in dump["data"].items():
                if name.startswith("Module.0.Float16Module.forward"):
                    entry["input_args"][0].update(Max=7.0, Min=0.0, dtype="torch.int64")
            file.write_text(json.dumps(dump))
        done = self.compare("--rank_size", "4", "1", "--tp", "2", "1", "--pp", "1", "1")
        self.assertEqual(done.returncode, 3 if self.files() else 1, done.stdout + done.stderr)
        self.assertIn("had not the same data in the same order", done.stdout)


class Progress(Case):
    """The lines that the viewer's page reads, by its own rules."""

    def lines(self, done):
        found = []
        for line in done.stdout.splitlines():
            if "PROGRESS: " in line:
                found.append(json.loads(line[line.rindex("PROGRESS: ") + len("PROGRESS: "):]))
        return found

    def test_success(self):
        done = self.compare("-progress_log")
        lines = self.lines(done)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(lines[-1], {"current_progress": 100, "process_running": False, "error_msg": []})
        self.assertTrue(all(line["process_running"] for line in lines[:-1]))
        percent = [line["current_progress"] for line in lines]
        self.assertEqual(percent, sorted(percent))

    def test_failure(self):
        shutil.rmtree(self.dir / "golden")
        done = self.compare("-progress_log")
        lines = self.lines(done)
        self.assertEqual(done.returncode, 1)
        self.assertFalse(lines[-1]["process_running"])
        self.assertTrue(lines[-2]["process_running"])
        self.assertRegex(lines[-2]["error_msg"][0], "golden")

    def test_launcher(self):
        launcher = HERE.parent.parent / "scripts/msprobe"
        environment = dict(os.environ, PATH=os.path.dirname(ARGUMENTS.binary) + os.pathsep + os.environ["PATH"], MSVIS_NP=str(max(ARGUMENTS.np, 1)))
        done = subprocess.run([launcher, "graph_visualize", "-tp", self.dir / "target", "-gp", "", "-o", self.out, "-progress_log"], env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(self.lines(done)[-1]["process_running"])
        self.assertRegex(self.files()[0], r"^build_\d{14}\.vis\.db$")
        for bad in (["unknown"], []):
            self.assertEqual(subprocess.run([launcher, *bad], stderr=subprocess.PIPE, check=False).returncode, 2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True, type=os.path.abspath)
    parser.add_argument("--testdata", required=True)
    parser.add_argument("--np", type=int, default=0)
    ARGUMENTS, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
