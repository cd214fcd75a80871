#!/usr/bin/env python3
"""Time that a whole run needs to link communication nodes, by the number of ranks.

    links_run.py --program build/msvis-mpi [--processes 2] [--ranks 64,128,256] [--nodes 1000] [--group 8]

Makes dumps with that many collective calls each, runs the program on them as a build, and prints the seconds of the stage
(from --summary-json), links, and links per second.
"""

import argparse
import json
import os
import subprocess
import tempfile
from pathlib import Path


def write_rank(directory, rank, nodes, group):
    directory.mkdir(parents=True)
    first = rank // group * group
    ranks = list(range(first, first + group))
    tensor = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [8, 8], "Max": 1.0, "Min": 0.0, "Mean": 0.5, "Norm": 4.0,
              "requires_grad": False}
    data = {}
    for node in range(nodes):
        data[f"Distributed.all_reduce.{node}.forward"] = {
            "input_args": [tensor],
            "input_kwargs": {"group": {"type": "torch.ProcessGroup", "group_ranks": ranks, "group_id": f"{first:08x}"}},
            "output": [tensor],
        }
    dump = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None, "data": data}
    (directory / "dump.json").write_text(json.dumps(dump))
    (directory / "construct.json").write_text(json.dumps({name: None for name in data}))
    (directory / "stack.json").write_text(json.dumps({"0": [list(data), ["File train.py, line 1, in step"]]}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--ranks", default="64,128,256")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--group", type=int, default=8)
    options = parser.parse_args()
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_mpi_yield_when_idle="1")
    print("ranks  links  seconds  links/s")
    with tempfile.TemporaryDirectory(prefix="msvis-links-run-") as folder:
        dump = Path(folder) / "dump"
        written = 0
        for ranks in sorted(int(text) for text in options.ranks.split(",")):
            for rank in range(written, ranks):
                write_rank(dump / f"rank{rank}", rank, options.nodes, options.group)
            written = ranks
            summary = Path(folder) / "summary.json"
            command = [options.program, "-tp", dump, "-o", Path(folder) / f"out{ranks}", "--summary-json", summary]
            if options.processes > 0:
                command = ["mpirun", "--oversubscribe", "-n", str(options.processes), *command]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
            found = json.loads(summary.read_text())
            seconds = found["seconds"]["links"]
            print(f"{ranks:5}  {found['links']:6}  {seconds:7.2f}  {found['links'] / seconds:8.0f}")


if __name__ == "__main__":
    main()
