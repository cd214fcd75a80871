#!/usr/bin/env python3
"""What the parameter table (--metrics) costs: whole runs without it, with HDF5 and with CSV, in turns, on generated dumps.

usage: metrics_cost.py [statistics|large|tensor|...] --build build [--np 2] [--rounds 3] [--work DIR]

The sets are those of whole_run.py. Times are of whole processes, start and end included: seconds on the wall, and of all processors (user and system, without
the other work of the machine). Prints one JSON line: the best of the rounds, the ratios of the best, and the largest memory of a process.
"""
import argparse
import json
import os
import pathlib
import resource
import shutil
import subprocess
import time

import whole_run


def measure(a, target, golden, table):
    out = a.work / "out"
    shutil.rmtree(out, ignore_errors=True)
    command = [] if a.np == 0 else ["mpirun", "--oversubscribe", "-n", str(a.np)]
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1")
    more = ["--metrics", table] if table else []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    done = subprocess.run([*command, a.build / "msvis-mpi", "-tp", target, "-gp", golden, "-o", out, *more], check=True, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = {"wall": wall, "processor": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime}
    for line in done.stdout.splitlines():
        if " parameters to " in line:
            found["rows"] = int(line.split("Wrote ")[1].split()[0])
            found["export"] = float(line.split(" in ")[-1].split()[0])
    found["bytes"] = sum(path.stat().st_size for path in out.iterdir()) if not table else table.stat().st_size
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=whole_run.SETS, nargs="?", default="statistics")
    parser.add_argument("--build", type=pathlib.Path, default=whole_run.HERE.parent.parent / "build")
    parser.add_argument("--np", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/msvis-bench"))
    a = parser.parse_args()
    a.work.mkdir(parents=True, exist_ok=True)
    target, golden = whole_run.generate(a.work, a.kind)
    best = {}
    for _ in range(a.rounds):
        for name, table in (("without", None), ("hdf5", a.work / "table.h5"), ("csv", a.work / "table.csv")):
            for key, value in measure(a, target, golden, table).items():
                kept = best.setdefault(name, {})
                kept[key] = min(value, kept.get(key, value))
    for name in ("hdf5", "csv"):
        for key in ("wall", "processor"):
            best[name][f"{key}_ratio"] = round(best[name][key] / best["without"][key], 3)
        (a.work / f"table.{'h5' if name == 'hdf5' else 'csv'}").unlink()
    shutil.rmtree(a.work / "out")
    print(json.dumps({"kind": a.kind, "processes": a.np, "largest_process_kib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, **best}))


if __name__ == "__main__":
    main()
