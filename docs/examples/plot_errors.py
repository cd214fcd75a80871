#!/usr/bin/env python3
"""Draws where the error grows: the outputs of modules and APIs in the order of execution, one line for each rank.

    plot_errors.py TABLE.h5 [-o errors.png] [--nodes Module] [--column NAME] [--step N] [--text]

TABLE.h5 is written by msvis-mpi --metrics (docs/metrics.md). Needs h5py, and matplotlib unless --text prints the figures instead.
"""
import argparse

import h5py
import numpy as np

# What is drawn by default in each mode, and how the axis is called.
DEFAULTS = {"all": ("cosine", "1 - cosine of the output"), "summary": ("norm_relative", "difference of the norm [%]")}
COLOURS = {"warning": "tab:orange", "error": "tab:red"}


def read_outputs(file, column, nodes, step):
    """Step, rank, place, node, result and error of all outputs of forward nodes of a kind that have the metric."""
    table = file["table"]
    names = file["dictionary/node"].asstr()[()]
    parameters = file["dictionary/parameter"].asstr()[()]
    results = file["dictionary/result"].asstr()[()]
    # Conditions on texts are decided once for each text of the dictionary.
    wanted_node = np.array([name.startswith(nodes) and ".forward" in name for name in names])
    wanted_parameter = np.array([parameter.startswith("output") for parameter in parameters])
    error = table[column][()]
    if column == "cosine":
        error = 1 - error
    chosen = wanted_node[table["node"][()]] & wanted_parameter[table["parameter"][()]] & ~np.isnan(error)
    steps = table["step"][()]
    if step is not None:
        chosen &= steps == step
    order = table["node_order"][()][chosen]
    return steps[chosen], table["rank"][()][chosen], order, names[table["node"][()][chosen]], results[table["result"][()][chosen]], np.abs(error[chosen])


def places_in_order(order, names):
    """A place on the axis for every node, by its earliest place in any rank."""
    earliest = {}
    for place, name in zip(order.tolist(), names):
        earliest[name] = min(place, earliest.get(name, place))
    return {name: place for place, name in enumerate(sorted(earliest, key=lambda name: (earliest[name], name)))}


def short(name):
    """Module.layers.0.mlp.dense.Linear.forward.0: layers.0.mlp.dense.Linear, its end if that is long."""
    name = name.split(".", 1)[-1].rsplit(".forward", 1)[0]
    return name if len(name) <= 40 else "..." + name[-37:]


def draw(picture, label, lines, places, title):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(min(6 + 0.3 * len(places), 24), 6.5), constrained_layout=True)
    blues = plt.get_cmap("winter")
    positive = [value for _, _, _, errors in lines for value in errors if 0 < value < np.inf]
    floor = min(positive, default=1e-9) / 3  # where no difference is drawn
    for number, (name, x, results, errors) in enumerate(lines):
        y = np.clip(errors, floor, max(positive, default=1) * 10)
        axes.plot(x, y, marker=".", linewidth=1, alpha=0.8, color=blues(number / max(1, len(lines) - 1)), label=name)
        for result, colour in COLOURS.items():
            at = results == result
            axes.scatter(x[at], y[at], color=colour, zorder=3, s=40)
    for result, colour in COLOURS.items():
        if any((results == result).any() for _, _, results, _ in lines):
            axes.scatter([], [], color=colour, s=40, label=result)
    axes.set_yscale("log")
    axes.axhline(floor, color="gray", linewidth=0.5, linestyle=":")
    axes.annotate("no difference", (0, floor), fontsize="x-small", color="gray", verticalalignment="bottom")
    axes.set_ylabel(label)
    axes.set_title(title)
    every = max(1, len(places) // 60)
    ticks = list(places.items())[::every]
    axes.set_xticks([place for _, place in ticks], [short(name) for name, _ in ticks], rotation=90, fontsize="x-small")
    axes.legend(fontsize="small", ncols=2 if len(lines) > 8 else 1)
    figure.savefig(picture, dpi=120)


def main():
    parser = argparse.ArgumentParser(description="Draws where the error grows.")
    parser.add_argument("table")
    parser.add_argument("-o", "--output", default="errors.png", help="picture (default: errors.png)")
    parser.add_argument("--nodes", default="Module", help="beginning of the names of the nodes, such as Module, Functional, Cell (default: Module)")
    parser.add_argument("--column", help="metric to draw (default: cosine of tensors, norm_relative of statistics)")
    parser.add_argument("--step", type=int, help="one step only (default: all)")
    parser.add_argument("--text", action="store_true", help="print the figures, draw nothing")
    options = parser.parse_args()

    with h5py.File(options.table) as file:
        if file.attrs.get("format") != "msvis-metrics" or file.attrs["version"] != 1:
            raise SystemExit(f"{options.table} is no table of msvis-mpi --metrics that this program knows")
        modes = [mode for mode in file.attrs["modes"] if mode in DEFAULTS]
        if not options.column and not modes:
            raise SystemExit("the table has no statistics or tensors of two sides; name a column with --column")
        column, label = (options.column, options.column) if options.column else DEFAULTS[modes[0]]
        steps, ranks, order, names, results, errors = read_outputs(file, column, options.nodes, options.step)
    if len(names) == 0:
        raise SystemExit(f"no output of a forward node that begins with {options.nodes} has a {column}")
    places = places_in_order(order, names)
    x = np.array([places[name] for name in names])
    lines = []
    for step, rank in sorted(set(zip(steps.tolist(), ranks.tolist()))):
        at = (steps == step) & (ranks == rank)
        lines.append((f"step {step} rank {rank}", x[at], results[at], errors[at]))
    if options.text:
        for name, line_x, line_results, line_errors in lines:
            for place, result, error in zip(line_x, line_results, line_errors):
                print(f"{name}  {error:10.3g}  {result:8}  {list(places)[place]}")
        return
    draw(options.output, label, lines, places, f"{options.nodes}: {label}")
    print(f"{options.output}: {len(names)} outputs of {len(places)} nodes")


if __name__ == "__main__":
    main()
