#!/usr/bin/env python3
"""What ../MODEL.md predicts, beside what was measured.

Usage: predict.py results.json [options]

Reads the results of run.py and prints a Markdown table: for each point of ffnorm
the seconds that the model gives from the machine's peak and read bandwidth alone,
the measured ones, and their quotient. The defaults are AVX3's row of
kernels/tuning.h; AVX2 has --mr 6 --mc 72 --few 3 --listed 65 65 47 37 --few-listed
65 65 38 38 --more-listed 38 38 38 42 --row-listed 0 50 50 64 64
--tile-list-rows 1 3 5 8 --row-rate .65.
"""

import argparse
import json
import math
import statistics


# kFarMatrixFloats, kJustBeyondL3MatrixFloats and kWellBeyondL3MatrixFloats of
# kernels/tuning.h
SUPPLIES = (2 << 20, 4 << 20, 6 << 20)


def tile_rows(rows, mr):
    """Heights of the register tiles that cover these rows."""
    tiles = math.ceil(rows / mr)
    return [(rows * (t + 1)) // tiles - (rows * t) // tiles for t in range(tiles)]


def seconds(point, options):
    """The model of MODEL.md, "Time"."""
    rows, threads, active = point["rows"], point["threads"], point["active"]
    cells = point["d_model"] * point["d_ff"]
    peak = point["peak_flops"]
    # Time to read one matrix.
    read = 4 * cells / point["read_bytes_per_second"]
    compute = 2 * rows * cells / peak
    if rows > options.few:
        heights = tile_rows(rows, options.mr)
        # A tile lower than four rows waits for the latency of its multiply-adds.
        compute = 2 * sum(max(h, 4) for h in heights) * cells / peak
        if threads == 1 or len(heights) > 2 * threads:
            read *= math.ceil(len(heights) / (options.mc // options.mr))
    matmul1 = max(read, compute)
    supply = sum(cells >= floats for floats in SUPPLIES)
    if rows <= options.tile_list_rows[supply]:
        listed = (options.listed if rows == 1 else options.few_listed
                  if rows <= 3 else options.more_listed)[supply]
        # What is on in any row of a tile, taken here as if units were independent.
        union = 1 - (1 - active) ** min(rows, options.mr)
        return matmul1 * (2 if 100 * union > listed else 1 + union)
    few_or_more = min(rows, len(options.row_listed)) - 1
    if 100 * active > options.row_listed[few_or_more]:
        return 2 * matmul1
    products = 2 * rows * cells * active
    return matmul1 + max(read, products / (peak * options.row_rate))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results")
    parser.add_argument("--mr", type=int, default=14)
    parser.add_argument("--mc", type=int, default=112)
    parser.add_argument("--few", type=int, default=4)
    four = {"type": float, "nargs": 4}
    parser.add_argument("--listed", default=[75, 70, 62, 40], **four)
    parser.add_argument("--few-listed", default=[70, 70, 65, 45], **four)
    parser.add_argument("--more-listed", default=[36, 36, 36, 36], **four)
    parser.add_argument("--row-listed", type=float, nargs=5,
                        default=[0, 50, 50, 57, 66])
    parser.add_argument("--tile-list-rows", default=[1, 3, 7, 8], **four)
    parser.add_argument("--row-rate", type=float, default=0.70)
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
        model = seconds(point, args)
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
