#!/usr/bin/env python3
"""Tells whether result files hold the same rows, bit for bit.

    row_identity.py FILE.vis.db [FILE.vis.db ...]

Prints the SHA-256 over the rows of `SELECT * FROM t ORDER BY id` of tb_nodes, tb_stack and tb_config for each file. Exit code 0: all
files agree, 1: they differ, 2: a file can't be read.
"""

import hashlib
import sqlite3
import sys

TABLES = ("tb_nodes", "tb_stack", "tb_config")


def row_hashes(path):
    """SHA-256 by table. Types count: 1 and 1.0 and '1' are different values."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        hashes = {}
        for table in TABLES:
            digest = hashlib.sha256()
            for row in connection.execute(f"SELECT * FROM {table} ORDER BY id"):
                digest.update(repr(row).encode("utf-8", "surrogatepass"))
                digest.update(b"\n")
            hashes[table] = digest.hexdigest()
        return hashes
    finally:
        connection.close()


def main(paths):
    if not paths:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    first = None
    same = True
    for path in paths:
        try:
            hashes = row_hashes(path)
        except sqlite3.Error as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 2
        for table, digest in hashes.items():
            print(f"{digest}  {table}  {path}")
        first = first or hashes
        same = same and hashes == first
    print("same rows" if same else "DIFFERENT rows")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
