#!/usr/bin/env python3
"""Runs the command blocks of the documentation that are marked ```sh test.

usage: run_snippets.py --binary build/msvis-mpi --testdata testdata FILE.md ...

The blocks of a file run one after the other in one temporary directory, by bash -euo pipefail. The variables that the guide uses name dumps
of testdata. Exit code: 0 all blocks ended well, 1 one did not, 2 a file has no block.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--testdata", required=True)
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    golden = os.path.join(os.path.abspath(arguments.testdata), "golden")
    environment = dict(
        os.environ,
        PATH=os.path.dirname(os.path.abspath(arguments.binary)) + os.pathsep + os.environ["PATH"],
        OMPI_ALLOW_RUN_AS_ROOT="1",
        OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
        OMPI_MCA_rmaps_base_oversubscribe="1",
        MAPPING=os.path.join(golden, "layer_mapping/gpt_ms_vs_pt_yaml/mapping.yaml"),
    )
    for name, case in (("", "statistics/gpt_2ranks"), ("TENSOR_", "tensor/gpt_weight_fault"), ("FUZZY_", "fuzzy/gpt_shifted_counts"),
                       ("MAPPED_", "layer_mapping/gpt_ms_vs_pt_yaml"), ("SPLIT_", "merge/tp2pp2_vs_tp1")):
        environment[name + "TARGET"] = os.path.join(golden, case, "target")
        environment[name + "GOLDEN"] = os.path.join(golden, case, "golden")
    failed = 0
    for file in arguments.files:
        with open(file, encoding="utf-8") as text:
            blocks = re.findall(r"^```sh test\n(.*?)^```$", text.read(), re.M | re.S)
        if not blocks:
            print(f"{file}: no block is marked as a test", file=sys.stderr)
            return 2
        with tempfile.TemporaryDirectory() as directory:
            for block in blocks:
                done = subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=directory, env=environment, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, timeout=300, check=False)
                if done.returncode:
                    failed += 1
                    print(f"{file}: exit code {done.returncode} of\n{block}{done.stdout.decode(errors='replace')}")
        print(f"{file}: {len(blocks)} blocks")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
