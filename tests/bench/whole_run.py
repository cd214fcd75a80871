#!/usr/bin/env python3
"""Times whole runs of msvis-mpi against their floors, in one go, on generated dumps.

usage: whole_run.py statistics|large|tensor|small-files --build build [--np 2] [--rounds 3] [--packed] [--work DIR]

statistics   8 ranks x 5,352 nodes a side; floor: simdjson alone + SQLite alone (statistics_floor)
large        1 rank x 200,000 nodes
tensor       float32, 1 GiB a side; floor: `cat` of all tensor files
bfloat16     the same in bfloat16
small-files  many files of a few KiB; floor: open, read, close of all tensor files

--packed: the same tensors packed by msvis-pack as well, in turns with the files.

Needs python3-numpy for the generator (tests/tools/gen_dump.py). Prints one JSON line: best of the rounds, and the ratio of the best times. The program and its
floor take turns. Seconds of the program are those of its own summary, so the start of mpirun is left out.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
SETS = {
    "statistics": (["--ranks", "8", "--layers", "68", "--hidden", "1024", "--seq", "512", "--vocab", "32000"], ["--perturb", "noise=2e-3@30", "nan=2@66"]),
    "large": (["--ranks", "1", "--layers", "2770", "--hidden", "1024", "--seq", "512", "--vocab", "32000"], ["--perturb", "noise=2e-3@30"]),
    "tensor": (["--ranks", "2", "--task", "tensor", "--layers", "12", "--hidden", "256", "--vocab", "4096", "--size", "512M"], ["--perturb", "noise=2e-3@6"]),
    "bfloat16": (["--ranks", "2", "--task", "tensor", "--layers", "12", "--hidden", "256", "--vocab", "4096", "--size", "512M", "--dtype", "bfloat16"],
                 ["--perturb", "noise=2e-3@6"]),
    "small-files": (["--ranks", "2", "--task", "tensor", "--layers", "160", "--hidden", "32", "--seq", "32", "--vocab", "32", "--size", "100M"], ["--perturb", "noise=2e-3@6"]),
}


def generate(work, kind):
    common, change = SETS[kind]
    for side, more in (("golden", []), ("target", change)):
        path = work / f"{kind}-{side}"
        if not path.exists():
            subprocess.run(["/usr/bin/python3", HERE.parent / "tools/gen_dump.py", path, *common, *more], check=True, stdout=sys.stderr)
    return work / f"{kind}-target", work / f"{kind}-golden"


def run_program(a, target, golden, out):
    shutil.rmtree(out, ignore_errors=True)
    command = [] if a.np == 0 else ["mpirun", "--oversubscribe", "-n", str(a.np)]
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1")
    subprocess.run([*command, a.build / "msvis-mpi", "-tp", target, "-gp", golden, "-o", out, "--summary-json", a.work / "summary.json"], check=True,
                   env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return json.loads((a.work / "summary.json").read_text())


def packed(a, side):
    """A copy of a dump whose tensors are packed."""
    copy = side.with_name(side.name + "-packed")
    if not copy.exists():
        for rank in (path.parent for path in side.rglob("dump.json")):
            there = copy / rank.relative_to(side)
            there.mkdir(parents=True)
            for name in ("dump.json", "stack.json", "construct.json"):
                os.link(rank / name, there / name)
            (there / "dump_tensor_data").symlink_to(rank / "dump_tensor_data")
        subprocess.run([a.build / "msvis-pack", copy], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for link in copy.rglob("dump_tensor_data"):
            link.unlink()
    return copy


def tensor_files(*sides):
    return sorted(str(p) for side in sides for p in side.rglob("dump_tensor_data/*"))


def read_all(files):
    """`cat` of all files, as two processes would share them."""
    start = time.monotonic()
    halves = [files[k::2] for k in range(2)]
    runs = [subprocess.Popen(["xargs", "-0", "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) for _ in halves]
    for process, half in zip(runs, halves):
        process.stdin.write("\0".join(half).encode())
        process.stdin.close()
    for process in runs:
        process.wait()
    return time.monotonic() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=SETS)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent.parent / "build")
    parser.add_argument("--np", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--packed", action="store_true")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/msvis-bench"))
    a = parser.parse_args()
    a.work.mkdir(parents=True, exist_ok=True)
    target, golden = generate(a.work, a.kind)
    out = a.work / "out"
    best = None
    best_packed = None
    floors = []
    for _ in range(a.rounds):
        if a.packed:
            summary = run_program(a, packed(a, target), packed(a, golden), out)
            if best_packed is None or summary["seconds"]["total"] < best_packed["seconds"]["total"]:
                best_packed = summary
        summary = run_program(a, target, golden, out)
        if best is None or summary["seconds"]["total"] < best["seconds"]["total"]:
            best = summary
        if a.kind in ("statistics", "large"):
            jsons = sorted(str(p) for side in (target, golden) for p in side.rglob("*.json"))
            floors.append(json.loads(subprocess.run([a.build / "tests/bench/statistics_floor", next(out.glob("*.vis.db")), *jsons], check=True,
                                                    stdout=subprocess.PIPE).stdout))
        else:
            floors.append({"total": read_all(tensor_files(target, golden))})
    floor = min(floors, key=lambda f: f["total"])
    shutil.rmtree(out, ignore_errors=True)
    seconds = best["seconds"]
    found = {"kind": a.kind, "processes": a.np, "nodes": best["nodes"]["target"] + best["nodes"]["golden"], "seconds": seconds, "floor": floor}
    if a.kind in ("statistics", "large"):
        found["rows_per_second"] = round(found["nodes"] / seconds["total"])
        found["over_floor"] = round(seconds["total"] / floor["total"], 3)
    else:
        files = tensor_files(target, golden)
        size = sum(os.path.getsize(f) for f in files)
        found.update(files=len(files), bytes=size, tensors=best["tensors"]["compared"])
        found["bytes_per_second"] = round(size / seconds["items"])
        found["cat_bytes_per_second"] = round(size / floor["total"])
        found["fraction_of_cat"] = round(floor["total"] / seconds["items"], 3)
        found["files_per_second"] = round(len(files) / seconds["items"])
        if a.packed:
            found["packed"] = {"seconds": best_packed["seconds"], "bytes_per_second": round(size / best_packed["seconds"]["items"]),
                               "items_ratio": round(seconds["items"] / best_packed["seconds"]["items"], 3),
                               "compare_ratio": round(seconds["work"]["compare"] / best_packed["seconds"]["work"]["compare"], 3)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
