#!/usr/bin/env python3
"""What ../MODEL.md predicts, beside what was measured.

Usage: predict.py results.json [--mr 6] [--mc 72] [--few 4] [--listed 65]

Reads the results of run.py and prints a Markdown table: for each point of ffnorm
the seconds that the model gives from the machine's peak and read bandwidth alone,
the measured ones, and their quotient. The defaults are AVX2's row of
kernels/tuning.h; AVX3 has --mr 14 --mc 112 --listed 75.
"""

import argparse
import json
import math
import statistics


def tile_rows(rows, mr):
    """Heights of the register tiles that cover these rows."""
    tiles = math.ceil(rows / mr)
    return [(rows * (t + 1)) // tiles - (rows * t) // tiles for t in range(tiles)]


def seconds(point, mr, mc, few, listed):
    """The model of MODEL.md, "Time"."""
    rows, threads = point["rows"], point["threads"]
    cells = point["d_model"] * point["d_ff"]
    peak = point["peak_flops"]
    bandwidth = point["read_bytes_per_second"]
    if rows <= few:
        # Both phases read their matrix once; matmul 2 only what is active.
        # Of several rows it is the union, taken here as if units were independent.
        union = 1 - (1 - point["active"]) ** rows
        read = 4 * cells / bandwidth
        compute = 2 * rows * cells / peak
        if 100 * union > listed:
            union = 1
        return max(read, compute) * (1 + union)
    heights = tile_rows(rows, mr)
    # A tile lower than four rows waits for the latency of its multiply-adds.
    slots = sum(max(h, 4) for h in heights)
    compute = 4 * slots * cells / peak
    passes = math.ceil(len(heights) / (mc // mr))
    shared = threads > 1 and len(heights) <= 2 * threads
    read = (1 if shared else max(1, passes)) * 8 * cells / bandwidth
    return max(read, compute)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results")
    parser.add_argument("--mr", type=int, default=6)
    parser.add_argument("--mc", type=int, default=72)
    parser.add_argument("--few", type=int, default=4)
    parser.add_argument("--listed", type=float, default=40)
    args = parser.parse_args()
    with open(args.results, encoding="utf-8") as file:
        points = json.load(file)["points"]

    print("| block | rows | threads | active | model, us | measured, us | model / measured |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    ratios = []
    for point in points:
        mine = [r for r in point["results"] if r["library"] == "ffnorm"]
        if not mine:
            continue
        model = seconds(point, args.mr, args.mc, args.few, args.listed)
        measured = mine[0]["seconds"]
        ratios.append(model / measured)
        print(f"| {point['order']} {point['name']} | {point['rows']} | {point['threads']} "
              f"| {point['active']:.0%} | {model * 1e6:.0f} | {measured * 1e6:.0f} "
              f"| {ratios[-1]:.2f} |")
    if ratios:
        print(f"\n{len(ratios)} points, geometric mean of model / measured "
              f"{statistics.geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
