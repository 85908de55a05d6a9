"""Results as text: the line of a point, the summary, the Markdown table."""
import math
from collections import defaultdict

import machine

BEHIND = 1.03  # slower than the best peer by more than this counts as behind

QUIET = 0.05  # share of interrupted batches that leaves medians alone

QUICK_HEAD = """
x: time of the best peer / time of ffnorm; roof: share of what FMA peak and read
bandwidth allow, which ReLU skipping may exceed"""


def split(point):
    """ffnorm's result, or None, and those of the peers, fastest first."""
    ours = [r for r in point["results"] if r["library"] == "ffnorm"]
    peers = [r for r in point["results"] if r["library"] != "ffnorm"]
    peers.sort(key=lambda r: r["seconds"])
    return (ours[0] if ours else None), peers


def flops(point, result):
    work = 4.0 * point["rows"] * point["d_model"] * point["d_ff"]
    return work / result["seconds"]


def roof_share(point, result):
    return flops(point, result) / point["roof_flops"]


def peak_share(point, result):
    return flops(point, result) / point["peak_flops"]


def ratio(point):
    """Time of the best peer / time of ffnorm, or None."""
    ours, peers = split(point)
    return peers[0]["seconds"] / ours["seconds"] if ours and peers else None


def name_of(point):
    shape = (f"{point['d_model']}x{point['d_ff']}" if point["data"] == "random"
             else f"{point['data']} {point['name']}")
    return (f"{shape} {point['order']} {point['rows']} rows "
            f"{point['threads']} thr.")


def line(point):
    ours, peers = split(point)
    text = f"{name_of(point):36}"
    if ours:
        text += (f" ffnorm {ours['seconds'] * 1e6:9.1f} us,"
                 f" roof {roof_share(point, ours):4.2f}")
    if peers:
        best = peers[0]
        text += (f" | {best['library']} {best['variant']}"
                 f" {best['seconds'] * 1e6:.1f} us,"
                 f" roof {roof_share(point, best):4.2f}")
    if ours and peers:
        text += f" | x {ratio(point):.2f}"
    return text


def norm_bandwidth(point, result):
    """Bytes a second of LayerNorm alone: rows in and rows out."""
    return 8.0 * point["rows"] * point["d_model"] / result["seconds"]


def norm_line(point):
    ours, peers = split(point)
    cells = [f"{r['library']} {r['variant']} {r['seconds'] * 1e6:.1f} us, "
             f"{norm_bandwidth(point, r) / 1e9:.1f} GB/s"
             for r in [ours, *peers[:1]] if r]
    if ours and peers:
        cells.append(f"x {ratio(point):.2f}")
    return f"{point['rows']} rows of {point['d_model']} " + " | ".join(cells)


def geometric_mean(values):
    values = list(values)
    if not values:
        return float("nan")
    return math.exp(sum(map(math.log, values)) / len(values))


def against_best(points):
    return [r for r in map(ratio, points) if r is not None]


def against_each(points):
    """{library: [time of its best variant / time of ffnorm, each point]}."""
    ratios = defaultdict(list)
    for point in points:
        ours, peers = split(point)
        if ours is None:
            continue
        seen = set()
        for peer in peers:  # fastest first
            if peer["library"] not in seen:
                seen.add(peer["library"])
                ratios[peer["library"]].append(
                    peer["seconds"] / ours["seconds"])
    return ratios


def behind(points):
    some = [p for p in points if ratio(p) and ratio(p) * BEHIND < 1.0]
    return sorted(some, key=ratio)


def summary(results):
    points = results["points"]
    texts = []
    for kind in ("random", "trained"):
        some = [p for p in points if p["data"] == kind]
        ratios = against_best(some)
        if ratios:
            texts.append(
                f"{kind}: ffnorm is {geometric_mean(ratios):.3f}x as fast as "
                f"the best peer of each point (geometric mean of "
                f"{len(ratios)}; worst {min(ratios):.2f})")
            singles = sorted((geometric_mean(r), library) for library, r
                             in against_each(some).items())
            texts.append("  against each: " + ", ".join(
                f"{library} {mean:.2f}" for mean, library in singles))
    shares = [r["interrupted"] for p in points for r in p["results"]]
    if shares and sum(shares) / len(shares) > QUIET:
        texts.append(f"NOT A QUIET MACHINE: other processes took a CPU in "
                     f"{100 * sum(shares) / len(shares):.0f}% of the batches")
    late = behind(points)
    compared = len(against_best(points))
    texts.append(f"behind the best peer by more than 3%: {len(late)} of "
                 f"{compared} points")
    return "\n".join(texts)


# ---- Markdown ----------------------------------------------------------------

def table(head, rows):
    lines = ["| " + " | ".join(map(str, head)) + " |",
             "|---" + "|--:" * (len(head) - 1) + "|"]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join(lines)


def threads_text(count):
    return "1 thread" if count == 1 else f"{count} threads"


def groups(points):
    """Points by what one table shows."""
    found = defaultdict(list)
    for point in points:
        key = (point["data"] != "random", point["data"], point["order"],
               point["threads"])
        found[key].append(point)
    return sorted(found.items())


def grid(points, cell):
    """A line for each shape, a column for each number of rows."""
    rows = sorted({p["rows"] for p in points})
    names = sorted({(p["d_model"] * p["d_ff"], p["name"]) for p in points})
    at = {(p["name"], p["rows"]): p for p in points}
    body = [[name] + [cell(at[name, r]) if (name, r) in at else ""
                      for r in rows] for _, name in names]
    return table(["rows"] + rows, body)


def best_cell(point):
    ours, peers = split(point)
    if not ours or not peers:
        return "n/a"
    mark = "**" if ratio(point) * BEHIND < 1.0 else ""
    return f"{mark}{ratio(point):.2f}{mark} {peers[0]['library']}"


def roof_cell(point):
    ours, peers = split(point)
    cells = [f"{roof_share(point, r):.2f}" for r in [ours, *peers[:1]] if r]
    return " / ".join(cells)


def libraries(results):
    worst = defaultdict(float)
    for point in results["points"]:
        for r in point["results"]:
            worst[r["library"]] = max(worst[r["library"]], r["accuracy"])
    ratios = {kind: against_each(p for p in results["points"]
                                 if p["data"] == kind)
              for kind in ("random", "trained")}
    rows = []
    for library in results["libraries"]:
        name = library["library"]
        if name not in worst:
            continue
        cells = [f"{geometric_mean(ratios[kind][name]):.2f} "
                 f"({len(ratios[kind][name])})" if ratios[kind].get(name)
                 else "" for kind in ("random", "trained")]
        rows.append([name, library["version"], library["note"], *cells,
                     f"{worst[name]:.1e}"])
    return table(["library", "version", "what it used",
                  "ffnorm is x as fast (points)", "on trained weights",
                  "accuracy"], rows)


def best_means(points):
    rows = []
    for (_, kind, order, threads), some in groups(points):
        ratios = against_best(some)
        if ratios:
            rows.append([f"{kind}, {order}, {threads_text(threads)}",
                         f"{geometric_mean(ratios):.3f}", f"{min(ratios):.2f}",
                         len(ratios)])
    for kind in ("random", "trained"):
        ratios = against_best(p for p in points if p["data"] == kind)
        if ratios:
            rows.append([f"{kind}, all", f"{geometric_mean(ratios):.3f}",
                         f"{min(ratios):.2f}", len(ratios)])
    return table(["points", "geometric mean", "worst", "number"], rows)


def norm_table(points):
    """A line for each point, a column for each library."""
    names = sorted({r["library"] for p in points for r in split(p)[1]})
    rows = []
    for point in points:
        each = {name: ratios[0]
                for name, ratios in against_each([point]).items()}
        ours = split(point)[0]
        rows.append([point["rows"], point["d_model"],
                     f"{norm_bandwidth(point, ours) / 1e9:.1f}" if ours else "",
                     f"{point['read_bytes_per_second'] / 1e9:.1f}",
                     *(f"{each[n]:.2f}" if n in each else "" for n in names)])
    return table(["rows", "d_model", "ffnorm, GB/s", "plain read, GB/s",
                  *names], rows)


def markdown(results):
    points = results["points"]
    parts = ["# ffnorm and its peers", machine.caption(results),
             "```\n" + summary(results) + "\n```", "## Libraries",
             "Accuracy: the worst row error |e| / |y| against float64, over "
             "all points. The comparison takes each library's best variant.",
             libraries(results)]
    for name, why in results["skipped"].items():
        parts.append(f"{name}: skipped, {why}")
    parts += ["## Against the best peer of each point",
              "Time of the best peer / time of ffnorm.", best_means(points)]
    late = behind(points)
    parts.append("Points where ffnorm is slower by more than 3%: "
                 + (f"{len(late)}." if late else "none."))
    if late:
        parts.append("\n".join(f"- {line(point)}" for point in late))
    for (_, kind, order, threads), some in groups(points):
        parts += [f"## {kind}, {order.title()}-LN, {threads_text(threads)}",
                  "Time of the best peer / time of ffnorm, and who that is:",
                  grid(some, best_cell),
                  "Share of the roof, ffnorm / best peer:",
                  grid(some, roof_cell)]
    if results.get("layer_norm"):
        parts += ["## LayerNorm alone, 1 thread",
                  "Bytes of rows in and out, and the time of each library / "
                  "time of ffnorm:", norm_table(results["layer_norm"])]
    for series in results["density"]:
        dense = max(series["series"], key=lambda s: s["density"])["seconds"]
        parts += [f"## One row against density, {series['d_model']}x"
                  f"{series['d_ff']}, Pre-LN, 1 thread, ffnorm",
                  table(["density"] + [s["density"] for s in series["series"]],
                        [["us"] + [f"{s['seconds'] * 1e6:.1f}"
                                   for s in series["series"]],
                         ["share of dense"] + [f"{s['seconds'] / dense:.2f}"
                                               for s in series["series"]]])]
    wrong = results.get("wrong", [])
    not_run = results.get("not_run", [])
    if wrong or not_run:
        parts += ["## Not timed", "\n".join(
            f"- {e['contestant']}, {e['order']}, {e['rows']} rows: {e['why']}"
            for e in wrong + not_run)]
    return "\n\n".join(parts) + "\n"
