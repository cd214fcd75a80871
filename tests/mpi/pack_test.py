#!/usr/bin/env python3
"""Packed ranks by the command line: same results, h5py and h5dump read them, interruption leaves the originals, damage is told.

    pack_test.py --program msvis-mpi --pack msvis-pack --mpiexec mpiexec --testdata testdata [unittest options]
"""

import argparse
import collections
import hashlib
import io
import os
import pickle
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile
from pathlib import Path

TOOLS = Path(__file__).resolve().parent.parent / "tools"
sys.path.insert(0, str(TOOLS))
from row_identity import row_hashes  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None
try:
    import h5py
except ImportError:
    h5py = None

OPTIONS = None
TIMEOUT = 120
PACKED = "dump_tensor_data.h5"
FILES = "dump_tensor_data"


def environment():
    kept = {key: value for key, value in os.environ.items() if not key.startswith("SLURM_")}
    for key in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        kept.setdefault(key, "1")
    return kept


def command_of(program, arguments, processes):
    command = [program, *map(str, arguments)]
    return [OPTIONS.mpiexec, "--oversubscribe", "-n", str(processes), *command] if processes else command


def start(program, arguments, processes=0):
    return subprocess.Popen(command_of(program, arguments, processes), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())


def run(program, arguments, processes=0):
    return subprocess.run(command_of(program, arguments, processes), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
                          timeout=TIMEOUT, check=False)


def digest(directory):
    """Names and contents of a directory."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(directory.iterdir())}


def names_in(directory):
    return sorted(path.name for path in directory.iterdir())


def ranks_in(dump):
    return sorted({path.parent for path in dump.rglob("dump.json")})


def payload(file):
    """The elements of a tensor in the zip container of torch.save."""
    with zipfile.ZipFile(file) as archive:
        return archive.read(next(name for name in archive.namelist() if name.endswith("/data/0")))


class TorchUnpickler(pickle.Unpickler):
    """What torch.load does with data.pkl, without torch: a tensor as (storage class, elements, offset, shape, strides, further arguments)."""

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) in (("torch._utils", "_rebuild_tensor_v2"), ("torch._utils", "_rebuild_tensor_v3")):
            return lambda storage, *arguments: (*storage, *arguments)
        if module in ("torch", "torch.storage"):
            return f"{module}.{name}"
        raise pickle.UnpicklingError(f"{module}.{name}")

    def persistent_load(self, saved_id):
        kind, storage_class, key, location, count = saved_id
        assert (kind, key, location) == ("storage", "0", "cpu"), saved_id
        return storage_class, count


def load_pt(file):
    """What a restored file says of its tensor, and the bytes. Checks the archive with Python's own reader."""
    with zipfile.ZipFile(file) as archive:
        assert archive.testzip() is None
        assert archive.read("archive/byteorder") == b"little" and archive.read("archive/version") == b"3\n"
        return TorchUnpickler(io.BytesIO(archive.read("archive/data.pkl"))).load(), archive.read("archive/data/0")


class PackTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(prefix="msvis-pack-test-")
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.runs = 0

    def copy_of(self, case):
        copy = self.folder / Path(case).name
        shutil.copytree(Path(OPTIONS.testdata) / "golden" / case, copy)
        return copy

    def generate(self, name, *more):
        path = self.folder / name
        subprocess.run([sys.executable, TOOLS / "gen_dump.py", path, *map(str, more)], check=True, stdout=subprocess.DEVNULL)
        return path

    def pack(self, *arguments, processes=0, code=0):
        done = run(OPTIONS.pack, arguments, processes)
        self.assertEqual(done.returncode, code, f"stdout:\n{done.stdout}\nstderr:\n{done.stderr}")
        return done

    def compare(self, case, processes=0, flags=()):
        """Rows of a comparison, those of the viewer and our own of the tensors."""
        self.runs += 1
        output = self.folder / f"out{self.runs}"
        done = run(OPTIONS.program, ["-tp", case / "target", "-gp", case / "golden", "-o", output, *flags], processes)
        self.assertEqual(done.returncode, 0, f"stdout:\n{done.stdout}\nstderr:\n{done.stderr}")
        result = next(output.glob("*.vis.db"))
        hashes = row_hashes(result)
        connection = sqlite3.connect(result)
        hashes["msvis_tensor"] = sorted(map(repr, connection.execute("SELECT * FROM msvis_tensor")))
        connection.close()
        shutil.rmtree(output)
        return hashes, done


class SameRows(PackTest):
    """Every tensor case: target packed, both, golden, none again; bit for bit, for 1 and 2 processes."""

    def check(self, case, packing=(), processes=(0, 2), flags=()):
        expected, _ = self.compare(case, flags=flags)
        self.assertGreater(len(expected["msvis_tensor"]), 0)
        target, golden = case / "target", case / "golden"
        for what, arguments in (("target", ["--replace", *packing, target]), ("both", ["--replace", *packing, golden]),
                                ("golden", ["--unpack", "--replace", target]), ("none", ["--unpack", "--replace", golden])):
            self.pack(*arguments, processes=2)
            for side in (target, golden):
                for rank in ranks_in(side):
                    self.assertEqual((rank / PACKED).exists(), what in (side.name, "both"), what)
                    self.assertEqual((rank / FILES).exists(), what not in (side.name, "both"), what)
            for count in processes:
                with self.subTest(case=case.name, packed=what, processes=count, flags=flags):
                    self.assertEqual(self.compare(case, count, flags)[0], expected)

    def test_golden_cases(self):
        cases = sorted(path.name for path in (Path(OPTIONS.testdata) / "golden" / "tensor").iterdir())
        self.assertGreaterEqual(len(cases), 8)
        for name in cases:
            self.check(self.copy_of(f"tensor/{name}"))

    def test_as_the_reference(self):
        for name in ("zoo_types", "mlp_damaged_file", "mlp_missing_files"):
            self.check(self.copy_of(f"tensor/{name}"), processes=(0,), flags=("--compat=reference",))

    @unittest.skipUnless(numpy, "needs numpy")
    def test_compressed(self):
        """Tensors of several chunks, of both frameworks and also in bfloat16; one rank is divided among two processes."""
        for name, more in (("pt", ()), ("npy", ("--framework", "mindspore")), ("bf16", ("--dtype", "bfloat16"))):
            case = self.folder / name
            case.mkdir()
            common = ["--task", "tensor", "--layers", 1, "--hidden", 128, "--vocab", 512, "--size", "24M", *more]
            self.generate(f"{name}/golden", *common)
            self.generate(f"{name}/target", *common, "--perturb", "noise=2e-3@0", "nan=1@0")
            self.check(case, ["--compress=3"], processes=(0, 2, 5))


class Merged(PackTest):
    """Tensors that are made up from the files of several ranks: from packed ones, partly packed and with a broken one."""

    @unittest.skipUnless(numpy, "needs numpy")
    def test_same_rows(self):
        case = self.folder / "merged"
        case.mkdir()
        for side, more in (("golden", ["--tp", 2, "--pp", 2]), ("target", ["--tp", 4, "--inject", "noise:1e-2", "Module.0.layers", "output", "all"])):
            subprocess.run([sys.executable, TOOLS.parent / "support" / "parallel_dump.py", case / side, "--task", "tensor", *map(str, more)],
                           check=True, stdout=subprocess.DEVNULL)
        flags = ("--rank_size", 4, 4, "--tp", 4, 2, "--pp", 1, 2)
        expected, done = self.compare(case, flags=flags)
        self.assertRegex(done.stderr, r"Tensors: [1-9]\d+ compared")
        self.pack("--replace", case / "target", "--ranks", "1-2")
        self.assertEqual(self.compare(case, flags=flags)[0], expected)
        self.pack("--replace", case / "target", case / "golden")
        self.assertEqual(len(list(case.rglob(PACKED))), 8)
        self.assertEqual(list(case.rglob(FILES)), [])
        for processes in (0, 2):
            self.assertEqual(self.compare(case, processes, flags)[0], expected)
        pack = case / "golden" / "rank3" / PACKED
        pack.write_bytes(pack.read_bytes()[:-1])
        found, done = self.compare(case, flags=flags)
        self.assertNotEqual(found, expected)
        self.assertRegex(done.stdout, r"\[WARNING\] .*golden/rank3/dump_tensor_data\.h5: .*cut off")


class Hdf5Tools(PackTest):
    @unittest.skipUnless(h5py, "needs h5py")
    def test_h5py_reads_what_the_files_hold(self):
        kinds = {"Float": "f4", "Double": "f8", "Half": "f2", "Int": "i4", "Long": "i8", "Byte": "u1", "Char": "i1", "Bool": "?", "ComplexFloat": "c8",
                 "BFloat16": "bf16"}
        seen = set()
        for packing in ([], ["--compress"]):
            case = self.copy_of("tensor/zoo_types")
            self.pack(*packing, case / "target")
            files = case / "target" / FILES
            with h5py.File(case / "target" / PACKED, "r") as pack:
                self.assertEqual(sorted(list(pack["tensors"]) + list(pack["files"])), names_in(files))
                for name, dataset in pack["tensors"].items():
                    with zipfile.ZipFile(files / name) as archive:
                        description = archive.read(next(n for n in archive.namelist() if n.endswith("/data.pkl")))
                    kind = next(k for k in sorted(kinds, key=len, reverse=True) if f"torch\n{k}Storage".encode() in description)
                    seen.add(kind)
                    raw = payload(files / name)
                    if kind == "BFloat16":
                        expected = (numpy.frombuffer(raw, "<u2").astype(numpy.uint32) << 16).view(numpy.float32)
                    else:
                        expected = numpy.frombuffer(raw, kinds[kind])
                    if dataset.size == expected.size:  # else a view of a larger storage
                        self.assertEqual(dataset[()].tobytes(), expected.tobytes(), name)
            shutil.rmtree(case)
        self.assertGreaterEqual(seen, {"Float", "Double", "Half", "BFloat16", "Long", "Bool", "ComplexFloat"})

    @unittest.skipUnless(h5py and numpy, "needs h5py")
    def test_npy_and_chunks_by_h5py(self):
        dump = self.generate("dump", "--task", "tensor", "--layers", 1, "--hidden", 64, "--vocab", 512, "--size", "12M", "--framework", "mindspore")
        for packing in ([], ["--compress=9"]):
            self.pack(*packing, dump)
            chunked = 0
            with h5py.File(dump / PACKED, "r") as pack:
                for file in (dump / FILES).iterdir():
                    dataset = pack["tensors"][file.name]
                    numpy.testing.assert_array_equal(dataset[()], numpy.load(file), strict=True)
                    chunked += dataset.chunks is not None
            self.assertEqual(chunked > 5, bool(packing))

    @unittest.skipUnless(h5py, "needs h5py")
    def test_index_as_documented(self):
        """docs/pack-format.md: each payload is where the index says, and its checksum is right."""
        import zlib
        case = self.copy_of("tensor/mlp_damaged_file")
        self.pack(case / "target")
        path = case / "target" / PACKED
        content = path.read_bytes()
        with h5py.File(path, "r") as pack:
            entries = pack["index/entries"][()]
            names = pack["index/names"][()].tobytes()
            shapes = pack["index/shapes"][()]
            found = []
            for entry in entries:
                name = names[entry["name_offset"]:entry["name_offset"] + entry["name_bytes"]].decode()
                found.append(name)
                at, size = int(entry["offset"]), int(entry["bytes"])
                self.assertEqual(zlib.crc32(content[at:at + size]), entry["crc32"], name)
                if entry["kind"] == 0:
                    self.assertEqual(content[at:at + size], (case / "target" / FILES / name).read_bytes())
                else:
                    shape = tuple(shapes[entry["shape_first"]:entry["shape_first"] + entry["dimensions"]])
                    self.assertEqual(pack["tensors"][name].shape, shape)
            self.assertEqual(found, names_in(case / "target" / FILES))
            self.assertIn(0, entries["kind"], "the damaged file is kept as it is")

    @unittest.skipUnless(shutil.which("h5dump"), "needs h5dump")
    def test_h5dump_reads_all(self):
        case = self.copy_of("tensor/zoo_types")
        self.pack("--compress", case / "target")
        done = subprocess.run(["h5dump", case / "target" / PACKED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        for word in ("H5T_IEEE_F32LE", "H5T_STD_I64LE", '"crc32"', 'DATASET "Module.lin_bf.Linear.forward.0.input.0.pt"'):
            self.assertIn(word, done.stdout)


class Restored(PackTest):
    """Restored files as others read them."""

    def test_pt_by_the_pickle_and_zip_modules(self):
        case = self.copy_of("tensor/zoo_types")
        files = case / "target" / FILES
        originals = {path.name: payload(path) for path in files.iterdir()}
        self.pack("--replace", case / "target")
        self.pack("--unpack", case / "target")
        sizes = {"FloatStorage": 4, "DoubleStorage": 8, "HalfStorage": 2, "BFloat16Storage": 2, "LongStorage": 8, "IntStorage": 4, "ShortStorage": 2,
                 "CharStorage": 1, "ByteStorage": 1, "BoolStorage": 1, "ComplexFloatStorage": 8, "ComplexDoubleStorage": 16}
        found = set()
        for path in files.iterdir():
            (storage, count, offset, shape, strides, requires_grad, hooks), content = load_pt(path)
            found.add(storage)
            elements = 1
            for size, stride in zip(reversed(shape), reversed(strides)):
                self.assertEqual(stride, elements if elements else stride, path.name)
                elements *= size
            self.assertEqual((offset, count, requires_grad, len(hooks)), (0, elements, False, 0))
            self.assertEqual(len(content), count * sizes[storage.removeprefix("torch.")])
            if len(content) == len(originals[path.name]):  # else it was a view of a larger storage
                self.assertEqual(content, originals[path.name])
        self.assertGreaterEqual(len(found), 8)

    @unittest.skipUnless(numpy, "needs numpy")
    def test_npy_by_numpy(self):
        dump = self.generate("dump", "--task", "tensor", "--layers", 1, "--hidden", 16, "--vocab", 64, "--size", "1M", "--framework", "mindspore")
        originals = {path.name: numpy.load(path) for path in (dump / FILES).iterdir()}
        numpy.save(dump / FILES / "fortran.npy", numpy.asfortranarray(numpy.arange(12.0).reshape(3, 4)))
        originals["fortran.npy"] = numpy.arange(12.0).reshape(3, 4)
        numpy.save(dump / FILES / "big.npy", numpy.arange(5, dtype=">i4"))
        originals["big.npy"] = numpy.arange(5, dtype="<i4")
        self.pack("--replace", dump)
        self.pack("--unpack", dump)
        self.assertEqual(names_in(dump / FILES), sorted(originals))
        for name, expected in originals.items():
            numpy.testing.assert_array_equal(numpy.load(dump / FILES / name), expected, strict=True)


class Commands(PackTest):
    def test_help_and_wrong_usage(self):
        for processes in (0, 2):
            done = self.pack("--help", processes=processes)
            self.assertEqual(done.stdout.count("Usage: msvis-pack"), 1)
            for arguments in ((), ("--no-such-option", "x"), ("--compress=10", "x"), ("--compress=0", "x"), ("--unpack", "--compress", "x"), ("--steps", "a", "x"),
                              ("",)):
                done = self.pack(*arguments, processes=processes, code=2)
                self.assertIn("msvis-pack: ", done.stderr)
        self.assertIn("msvis-pack ", self.pack("--version").stdout)
        self.assertIn("does not exist", self.pack(self.folder / "nowhere", code=1).stderr)

    def test_one_broken_rank_does_not_stop_the_others(self):
        case = self.copy_of("tensor/mlp_2ranks")
        shutil.rmtree(case / "target" / "rank1" / FILES)
        for processes in (0, 2):
            done = self.pack("--verify", case / "target", case / "golden", processes=processes, code=3)
            self.assertIn("3 of 4 ranks packed", done.stderr)
            self.assertRegex(done.stdout, r"\[ERROR\] .*rank1.*dump_tensor_data")
            self.assertTrue((case / "target" / "rank0" / PACKED).exists())
            self.assertFalse((case / "target" / "rank1" / PACKED).exists())
        self.pack("--ranks", 1, case / "target", code=1)
        self.assertIn("selects nothing", self.pack("--ranks", 7, case / "target", code=1).stderr)

    def test_selection_and_the_same_dump_twice(self):
        case = self.copy_of("tensor/convae_2steps_1rank")
        done = self.pack(case / "target", case / "target" / ".", "--steps", "0")
        self.assertIn("1 of 1 rank packed", done.stderr)
        steps = sorted(path.parent.parent.name for path in (case / "target").rglob(PACKED))
        self.assertEqual(steps, ["step0"])

    def test_directory_goes_before_pack_with_a_warning(self):
        case = self.copy_of("tensor/zoo_types")
        expected, _ = self.compare(case)
        self.pack(case / "target")
        (case / "target" / PACKED).write_bytes(b"no pack at all")
        found, done = self.compare(case)
        self.assertEqual(found, expected)
        self.assertRegex(done.stdout, r"\[WARNING\] .*target.* holds both .*the directory is read")

    def test_pack_that_is_there_is_checked(self):
        case = self.copy_of("tensor/zoo_types")
        self.pack("--replace", case / "target")
        self.assertIn("checksums are right", self.pack("--verify", case / "target").stdout)
        pack = case / "target" / PACKED
        content = bytearray(pack.read_bytes())
        content[4000] ^= 255
        pack.write_bytes(content)
        self.assertRegex(self.pack("--verify", case / "target", code=1).stderr, "checksum")

    def test_stage_names_are_left_by_nobody(self):
        case = self.copy_of("tensor/mlp_2ranks")
        self.pack("--replace", "--compress", case / "target", case / "golden", processes=5)
        for rank in ranks_in(case):
            self.assertEqual(names_in(rank), ["construct.json", "dump.json", PACKED, "stack.json"])


class Damage(PackTest):
    def check_unreadable(self, case, words, processes):
        (hashes, done) = self.compare(case, processes)
        rows = hashes["msvis_tensor"]
        self.assertGreater(len(rows), 50)
        self.assertTrue(all("damaged file" in row or "no tensor file" in row for row in rows), rows[:3])
        self.assertRegex(done.stdout, r"\[WARNING\] .*dump_tensor_data\.h5.*" + words)
        return hashes

    def test_damaged_pack_costs_the_metrics_only(self):
        case = self.copy_of("tensor/zoo_types")
        self.pack("--replace", case / "target")
        pack = case / "target" / PACKED
        good = pack.read_bytes()
        for words, bad in (("cut off", good[:-100]), ("is empty", b""), ("not written by msvis-pack", good[512:]), ("checksum", good[:60] + b"x" + good[61:])):
            pack.write_bytes(bad)
            first = self.check_unreadable(case, words, 0)
            self.assertEqual(self.check_unreadable(case, words, 2), first)
        entries = int.from_bytes(good[40:48], "little")
        pack.write_bytes(good[:entries + 8] + b"\xff" * 8 + good[entries + 16:])
        self.check_unreadable(case, "checksum", 0)


class Interruption(PackTest):
    """A rank of some size, killed at several moments."""

    FILES = 60

    def slow_rank(self):
        rank = self.folder / "dump"
        (rank / FILES).mkdir(parents=True)
        for name in ("dump.json", "stack.json", "construct.json"):
            (rank / name).write_text("{}")
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (262144,), }"
        header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
        for number in range(self.FILES):
            (rank / FILES / f"{number}.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + os.urandom(1 << 20))
        return rank

    def wait_for(self, process, path, size):
        """Until the file of the running program has so many bytes."""
        deadline = time.monotonic() + TIMEOUT
        while process.poll() is None and time.monotonic() < deadline:
            try:
                if path.stat().st_size >= size:
                    return True
            except FileNotFoundError:
                pass
            time.sleep(0.001)
        return False

    def test_killed_while_it_packs(self):
        rank = self.slow_rank()
        before = digest(rank / FILES)
        killed = 0
        for processes, size in ((0, 0), (0, 1 << 20), (0, 30 << 20), (0, 58 << 20), (2, 20 << 20)):
            process = start(OPTIONS.pack, ["--replace", "--compress=6", rank], processes)
            self.wait_for(process, rank / (PACKED + ".partial"), size)
            process.kill()
            process.communicate(timeout=TIMEOUT)
            time.sleep(0.5 if processes else 0)  # mpirun is dead; its children end when they notice
            if (rank / FILES).exists():
                killed += 1
                self.assertEqual(digest(rank / FILES), before)
                self.assertFalse((rank / PACKED).exists())
            else:
                self.restore(rank)
        self.assertGreaterEqual(killed, 3)
        self.pack("--replace", rank)
        self.assertEqual(names_in(rank), ["construct.json", "dump.json", PACKED, "stack.json"])
        self.restore(rank)
        for name, content in digest(rank / FILES).items():
            self.assertEqual(content, before[name])  # a plain .npy is restored byte by byte

    def restore(self, rank):
        self.pack("--unpack", "--replace", rank)

    def test_killed_while_it_unpacks(self):
        rank = self.slow_rank()
        self.pack("--replace", rank)
        for count in (1, 20, 55):
            process = start(OPTIONS.pack, ["--unpack", "--replace", rank])
            self.wait_for(process, rank / (FILES + ".partial") / f"{sorted(map(str, range(self.FILES)))[count]}.npy", 1)
            process.kill()
            process.communicate(timeout=TIMEOUT)
            if not (rank / FILES).exists():
                self.assertIn("checksums are right", self.pack("--verify", rank).stdout)
            else:
                self.pack("--replace", rank)
        self.restore(rank)
        self.assertEqual(names_in(rank), ["construct.json", "dump.json", FILES, "stack.json"])
        self.assertEqual(len(names_in(rank / FILES)), self.FILES)

    def test_killed_at_any_moment_one_form_is_complete(self):
        rank = self.slow_rank()
        complete = len(names_in(rank / FILES))
        for delay in (0.02, 0.05, 0.1, 0.2, 0.4, 0.8):
            process = start(OPTIONS.pack, ["--replace", rank])
            time.sleep(delay)
            process.kill()
            process.communicate(timeout=TIMEOUT)
            if (rank / FILES).exists():
                self.assertEqual(len(names_in(rank / FILES)), complete)
            else:
                self.pack("--verify", rank)
                self.restore(rank)
        self.pack("--replace", rank)
        self.assertEqual(names_in(rank), ["construct.json", "dump.json", PACKED, "stack.json"])

    def test_signals_end_it_cleanly(self):
        rank = self.slow_rank()
        before = digest(rank / FILES)
        for processes, number, code in ((0, signal.SIGTERM, 1), (0, signal.SIGINT, 130), (2, signal.SIGTERM, None)):
            process = start(OPTIONS.pack, ["--replace", "--compress=9", rank], processes)
            self.assertTrue(self.wait_for(process, rank / (PACKED + ".partial"), 2 << 20))
            process.send_signal(number)
            _, stderr = process.communicate(timeout=TIMEOUT)
            if code is not None:
                self.assertEqual(process.returncode, code, stderr)
                self.assertIn("interrupted", stderr)
            self.assertNotEqual(process.returncode, 0)
            if (rank / PACKED).exists():  # a worker was through with the rank before the end came
                self.assertEqual(names_in(rank), ["construct.json", "dump.json", PACKED, "stack.json"])
                self.restore(rank)
            self.assertEqual(names_in(rank), ["construct.json", "dump.json", FILES, "stack.json"])
            self.assertEqual(digest(rank / FILES), before)


def main():
    global OPTIONS
    parser = argparse.ArgumentParser()
    for option in ("--program", "--pack", "--mpiexec", "--testdata"):
        parser.add_argument(option, required=True)
    OPTIONS, rest = parser.parse_known_args()
    OPTIONS.program = str(Path(OPTIONS.program).resolve())
    OPTIONS.pack = str(Path(OPTIONS.pack).resolve())
    OPTIONS.testdata = str(Path(OPTIONS.testdata).resolve())
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
