"""The pictures, each as SVG and PNG."""
import textwrap
from collections import defaultdict

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (after the backend is chosen)

import machine  # noqa: E402
import report  # noqa: E402

# Okabe and Ito's colours, which colour-blind people tell apart.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, RED, PINK = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
GREY = "#9a9a9a"

PEER_STYLE = {
    "mkl": (BLUE, "s"), "onednn": (SKY, "D"), "libxsmm": (GREEN, "^"),
    "openblas": (ORANGE, "v"), "blis": (YELLOW, "P"), "eigen": (PINK, "X"),
    "onnxruntime": (BLACK, "x"), "openvino": (GREY, "+"),
    "torch": (ORANGE, "1"), "jax": (GREEN, "2"),
}
SHAPE_STYLE = [(BLUE, "o"), (ORANGE, "s"), (GREEN, "^"), (RED, "D"),
               (PINK, "v"), (SKY, "P"), (BLACK, "X")]

plt.rcParams.update({
    "figure.facecolor": "white", "axes.facecolor": "white",
    "axes.grid": True, "grid.color": "#e4e4e4", "axes.axisbelow": True,
    "axes.spines.top": False, "axes.spines.right": False,
    "font.size": 10, "svg.hashsalt": "ffnorm", "legend.frameon": False,
})


def save(figure, results, out, name):
    width = int(18 * figure.get_figwidth())  # characters of this size
    lines = [part for line in machine.caption(results).split("\n")
             for part in textwrap.wrap(line, width)]
    figure.text(0.01, 0.005, "\n".join(lines), fontsize=7, color="#555555",
                va="bottom")
    for kind in ("svg", "png"):
        figure.savefig(out / f"{name}.{kind}", dpi=130,
                       metadata={"Date": None} if kind == "svg" else None)
    plt.close(figure)


def panels(rows, columns, width=5.4, height=4.0):
    figure, axes = plt.subplots(rows, columns, squeeze=False, sharey=True,
                                figsize=(width * columns, height * rows + 0.8))
    figure.subplots_adjust(left=0.75 / (width * columns), right=0.98,
                           bottom=1.1 / (height * rows + 0.8),
                           top=1 - 0.7 / (height * rows + 0.8), wspace=0.06,
                           hspace=0.32)
    return figure, axes


def rows_axis(axis, points):
    rows = sorted({p["rows"] for p in points})
    axis.set_xscale("log", base=2)
    axis.set_xticks(rows, [str(r) for r in rows])
    axis.minorticks_off()
    axis.set_xlabel("rows")


def dense_points(results):
    return [p for p in results["points"] if p["data"] == "random"
            and report.split(p)[0]]


def by(points, key):
    found = defaultdict(list)
    for point in points:
        found[key(point)].append(point)
    return dict(sorted(found.items()))


def shape(point):
    return point["d_model"] * point["d_ff"], point["name"]


def shape_label(name):
    return "(" + name.replace("x", ", ") + ")"


def roofline(results, out):
    """Every point of ffnorm and of the peers under the roofs."""
    threads = by(dense_points(results), lambda p: p["threads"])
    figure, axes = panels(1, len(threads), height=4.6)
    for axis, (count, points) in zip(axes[0], threads.items()):
        peak = sorted(p["peak_flops"] for p in points)[len(points) // 2]
        rows = sorted({p["rows"] for p in points})
        fine = [rows[0] * (rows[-1] / rows[0]) ** (i / 200) for i in range(201)]
        for _, some in by(points, shape).items():
            read = sorted(p["read_bytes_per_second"] for p in some)
            read = read[len(read) // 2]
            axis.plot([r / 2 for r in fine],
                      [min(peak, read * r / 2) / 1e9 for r in fine],
                      color="#c8c8c8", linewidth=0.9, zorder=1)
        marks = defaultdict(list)
        for point in points:
            seen = set()
            for result in sorted(point["results"], key=lambda r: r["seconds"]):
                library = result["library"]
                if library not in seen:
                    seen.add(library)
                    # ffnorm a little to the right, so that it hides nobody.
                    shift = 1.08 if library == "ffnorm" else 0.94
                    marks[library].append(
                        (shift * point["rows"] / 2,
                         report.flops(point, result) / 1e9))
        for library, (colour, marker) in PEER_STYLE.items():
            if library in marks:
                axis.plot(*zip(*marks[library]), marker, color=colour,
                          markersize=4, alpha=0.6, label=library, zorder=2)
        axis.plot(*zip(*marks["ffnorm"]), "o", color=RED, markersize=6,
                  markeredgecolor="white", markeredgewidth=0.6, label="ffnorm",
                  zorder=3)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.set_xticks([r / 2 for r in rows], [f"{r / 2:g}" for r in rows])
        axis.minorticks_off()
        axis.set_xlabel("FLOPs per byte of weights (rows / 2)")
        axis.set_title(report.threads_text(count), fontsize=10)
    peaks = [p["peak_flops"] / 1e9 for some in threads.values() for p in some]
    axes[0][0].set_ylim(min(peaks) / 60, max(peaks) * 1.25)
    axes[0][0].set_ylabel("GFLOP/s")
    axes[0][0].legend(fontsize=8, ncol=2, loc="lower right")
    figure.suptitle("Roofline, all shapes and both orders; each library's best "
                    "variant; grey: FMA peak and read bandwidth of each shape")
    save(figure, results, out, "roofline")


def against_best(results, out):
    """How many times as fast as the best peer, over rows."""
    points = [p for p in dense_points(results) if report.ratio(p)]
    orders = by(points, lambda p: p["order"] != "pre")
    threads = sorted({p["threads"] for p in points})
    figure, axes = panels(len(orders), len(threads), height=3.5)
    names = list(by(points, shape))
    for row, (_, some) in enumerate(orders.items()):
        for axis, count in zip(axes[row], threads):
            here = [p for p in some if p["threads"] == count]
            axis.axhspan(1 / report.BEHIND, report.BEHIND, color="#eeeeee",
                         zorder=0)
            axis.axhline(1.0, color=GREY, linewidth=1)
            for key, line in by(here, shape).items():
                colour, marker = SHAPE_STYLE[names.index(key)
                                             % len(SHAPE_STYLE)]
                line.sort(key=lambda p: p["rows"])
                axis.plot([p["rows"] for p in line],
                          [report.ratio(p) for p in line], color=colour,
                          marker=marker, markersize=5, linewidth=1.8,
                          label=shape_label(key[1]))
            rows_axis(axis, points)
            order = "Pre-LN" if some[0]["order"] == "pre" else "Post-LN"
            axis.set_title(f"{order}, {report.threads_text(count)}",
                           fontsize=10)
        axes[row][0].set_ylabel("time of best peer / time of ffnorm")
    axes[0][0].legend(fontsize=8, ncol=2, title="(d_model, d_ff)",
                      title_fontsize=8)
    figure.suptitle("ffnorm against the best peer of each point: above 1 is "
                    "faster, grey is a tie (3%)")
    save(figure, results, out, "against_best")


def scaling(results, out):
    """Time a row over rows, and two threads against one."""
    points = [p for p in dense_points(results) if p["order"] == "pre"]
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.8))
    figure.subplots_adjust(left=0.085, right=0.98, bottom=0.23, top=0.86,
                           wspace=0.2)
    left, right = axes
    names = list(by(points, shape))
    most = max(p["threads"] for p in points)
    for key, some in by(points, shape).items():
        colour, marker = SHAPE_STYLE[names.index(key) % len(SHAPE_STYLE)]
        times = {(p["threads"], p["rows"]): p for p in some}
        for count, style in ((1, "-"), (most, "--")):
            rows = sorted(r for t, r in times if t == count)
            if (count == 1 or most > 1) and rows:
                seconds = [report.split(times[count, r])[0]["seconds"]
                           for r in rows]
                left.plot(rows, [1e6 * s / r for s, r in zip(seconds, rows)],
                          style, color=colour, marker=marker, markersize=4,
                          label=shape_label(key[1]) if count == 1 else None)
        both = sorted(r for t, r in times if t == 1 and (most, r) in times)
        for pick, line in ((0, {"linewidth": 2.2, "alpha": 1.0}),
                           (1, {"linewidth": 1.0, "alpha": 0.55,
                                "linestyle": ":"})):
            speed = []
            for r in both:
                ours, peers = zip(report.split(times[1, r]),
                                  report.split(times[most, r]))
                pair = ours if pick == 0 else [p[0] if p else None
                                               for p in peers]
                if all(pair):
                    speed.append((r, pair[0]["seconds"] / pair[1]["seconds"]))
            if speed and most > 1:
                right.plot(*zip(*speed), color=colour, marker=marker,
                           markersize=4 if pick == 0 else 2, **line)
    rows_axis(left, points)
    left.set_yscale("log")
    left.set_ylabel("microseconds a row")
    left.set_title(f"ffnorm, Pre-LN: 1 thread (solid), {most} (dashed)",
                   fontsize=10)
    left.legend(fontsize=8, title="(d_model, d_ff)", title_fontsize=8)
    rows_axis(right, points)
    right.axhline(most, color=GREY, linewidth=1)
    right.set_ylim(0, most + 0.4)
    right.set_ylabel(f"time of 1 thread / time of {most}")
    right.set_title("thick: ffnorm; dotted: the best peer of each point",
                    fontsize=10)
    figure.suptitle("Scaling over rows and threads")
    save(figure, results, out, "scaling")


def density(results, out):
    """One row: how the time follows the share of hidden units that is on."""
    figure, axis = plt.subplots(figsize=(7.2, 4.8))
    figure.subplots_adjust(left=0.11, right=0.97, bottom=0.23, top=0.92)
    axis.plot([0, 1], [0.5, 1.0], color=GREY, linewidth=1,
              label="reads only the active part of W2: (1 + p) / 2")
    for series, (colour, marker) in zip(results["density"], SHAPE_STYLE):
        steps = series["series"]
        dense = max(steps, key=lambda s: s["density"])["seconds"]
        name = f"{series['d_model']}x{series['d_ff']}"
        axis.plot([s["density"] for s in steps],
                  [s["seconds"] / dense for s in steps], color=colour,
                  marker=marker, linewidth=2, markersize=5,
                  label=f"ffnorm {shape_label(name)}, "
                  f"{dense * 1e6:.0f} us at p = 1")
    axis.set_xlim(0, 1.02)
    axis.set_ylim(0, 1.25)
    axis.set_xlabel("density p: share of hidden units that ReLU leaves on")
    axis.set_ylabel("time / time at p = 1")
    axis.set_title("One row, Pre-LN, 1 thread: time against density",
                   fontsize=11)
    axis.legend(fontsize=8, loc="lower right")
    save(figure, results, out, "density")


def draw_all(results, out):
    if dense_points(results):
        roofline(results, out)
        scaling(results, out)
    if any(report.ratio(p) for p in dense_points(results)):
        against_best(results, out)
    if results["density"]:
        density(results, out)
