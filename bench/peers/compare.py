"""Which points are measured, and with how much of the time each."""
import json
import time

import data
import measure
import report
from workers import Failed, Fleet

DENSITIES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
DENSITY_SHAPES = ((512, 2048), (1024, 4096), (4096, 16384))
DENSITY_ROUNDS = 9

# LayerNorm alone, bytes of the rows: x and y lie in L2, or in memory.
NORM_BYTES = (128 << 10, 64 << 20)
NORM_SECONDS = 2.0
NORM_PEERS = ("ffnorm", "onednn", "onnxruntime", "openvino", "torch", "jax")

QUICK_SHAPES = ((512, 2048), (1024, 4096))
QUICK_ROWS = (1, 8, 32, 128)
QUICK_PEERS = ("mkl", "onednn", "libxsmm", "openblas")
QUICK_SECONDS = 35.0


class Log:
    """What went wrong, for the results; said once for each contestant."""

    def __init__(self, say, results):
        self.say = say
        self.skips = results.setdefault("not_run", [])
        self.errors = results.setdefault("wrong", [])
        self.said = set()

    def add(self, entries, name, order, rows, what):
        entries.append({"contestant": name, "order": order, "rows": rows,
                        "why": what})
        if (name, what) not in self.said:
            self.said.add((name, what))
            self.say(f"  {name}, {order}, {rows} rows: {what}")

    def skip(self, name, order, rows, why):
        self.add(self.skips, name, order, rows, why)

    def wrong(self, name, order, rows, error):
        self.add(self.errors, name, order, rows,
                 f"WRONG, row error {error:.1e}; not timed")


def shape_of(text):
    d_model, d_ff = text.split("x")
    return int(d_model), int(d_ff)


def points_of(args, peak, say):
    """[(make the data set, orders, rows)], the most work first: what it takes
    over its share is then taken from all the others."""
    groups = []
    wanted = sorted(int(rows) for rows in args.rows)
    if "random" in args.data:
        shapes = sorted(map(shape_of, args.shapes),
                        key=lambda s: -s[0] * s[1])
        for d_model, d_ff in shapes:
            flops = 4.0 * d_model * d_ff
            rows = [r for r in wanted if r * flops <= args.longest * peak]
            if rows:
                groups.append((data.random_set(args.work, d_model, d_ff,
                                               max(rows)), rows))
    if "trained" in args.data:
        for block in data.trained_sets(args.work, say):
            groups.append((block, [r for r in wanted if r <= block.rows]))
    return [(block, [(order, rows) for rows in reversed(rows_list)
                     for order in block.orders if order in args.orders])
            for block, rows_list in groups]


def describe_libraries(fleet):
    return [{"library": worker.library, "version": worker.version,
             "note": worker.note} for worker in fleet.workers]


def full(args, commands, environment, cpus_for, results, say):
    """Fills results, and writes them as they come."""
    log = Log(say, results)
    results.update(points=[], density=[], layer_norm=[], libraries=[])
    results["settings"] = {
        "slot_seconds": measure.SLOT_SECONDS, "budget_minutes": args.budget,
        "rounds": [measure.MIN_ROUNDS, measure.MAX_ROUNDS]}
    end = time.monotonic() + 60.0 * args.budget
    for index, threads in enumerate(map(int, args.threads)):
        fleet = Fleet(commands, threads, cpus_for(args, threads),
                      environment(threads, args.isa), args.work, say)
        results["skipped"].update(fleet.failed)
        if not results["libraries"]:
            results["libraries"] = describe_libraries(fleet)
            for library in results["libraries"]:
                say("{library} {version} {note}".format(**library))
        now = time.monotonic()
        mine = now + (end - now) / (len(args.threads) - index)
        try:
            if "density" in args.data and threads == 1:
                density(args, fleet, results, say)
            if "norm" in args.data and threads == 1:
                with fleet.only(NORM_PEERS):
                    layer_norm(args, fleet, results, log)
            save(args, results)
            measure_groups(args, fleet, mine, results, log)
        finally:
            fleet.close()


def save(args, results):
    (args.out / "results.json").write_text(json.dumps(results, indent=1))


def measure_groups(args, fleet, end, results, log):
    peak, = fleet.roof.call("peak")
    groups = points_of(args, peak, log.say)
    left = sum(len(points) for _, points in groups)
    for block, points in groups:
        if not points:
            continue
        measure.load(fleet, block, log.say)
        truth = data.Truth(block)
        for order, rows in points:
            share = max(end - time.monotonic(), 0.0) / left
            point = measure.measure(fleet, block, truth, order, rows, share,
                                    args.work / "y.f32", log)
            left -= 1
            results["points"].append(point)
            log.say(report.line(point))
        save(args, results)


def density(args, fleet, results, say):
    ffnorm = next((w for w in fleet.workers if w.name == "ffnorm"), None)
    if ffnorm is None:
        return
    wanted = list(map(shape_of, args.shapes))
    for shape in DENSITY_SHAPES:
        if shape not in wanted:
            continue
        say(f"one row against density, {shape[0]}x{shape[1]}")
        # Of the largest, a set of weights takes half a gigabyte.
        some = DENSITIES if shape[0] < 4096 else DENSITIES[1::5]
        sets = {p: data.density_set(args.work, *shape, p) for p in some}
        try:
            results["density"].append(measure.measure_density(
                ffnorm, fleet.roof, sets, DENSITY_ROUNDS))
        except Failed as why:
            fleet.drop(ffnorm, why, say)
            return


def layer_norm(args, fleet, results, log):
    widths = sorted({shape_of(shape)[0] for shape in args.shapes})
    log.say("LayerNorm alone")
    for size in NORM_BYTES:
        for width in widths:
            rows = size // (4 * width)
            # Of the other parameters, which are not used, as few as can be.
            block = data.random_set(args.work, width, 1, rows)
            measure.load(fleet, block, log.say)
            point = measure.measure(fleet, block, data.Truth(block), "norm",
                                    rows, NORM_SECONDS, args.work / "y.f32",
                                    log)
            results["layer_norm"].append(point)
            log.say(report.norm_line(point))


def quick(args, commands, environment, cpus_for, say):
    """Few points, as text. Returns the exit status."""
    log = Log(say, {})
    some = {name: command for name, command in commands.items()
            if name in ("ffnorm", "roof", *QUICK_PEERS)}
    fleet = Fleet(some, 1, cpus_for(args, 1), environment(1, args.isa),
                  args.work, say)
    points = []
    try:
        for library in describe_libraries(fleet):
            say("{library} {version} {note}".format(**library))
        say(report.QUICK_HEAD)
        share = QUICK_SECONDS / len(QUICK_SHAPES) / len(QUICK_ROWS)
        for shape in QUICK_SHAPES:
            block = data.random_set(args.work, *shape, max(QUICK_ROWS))
            measure.load(fleet, block, say)
            truth = data.Truth(block)
            for rows in QUICK_ROWS:
                points.append(measure.measure(
                    fleet, block, truth, "pre", rows, share,
                    args.work / "y.f32", log, most_shares=1))
                say(report.line(points[-1]))
    finally:
        fleet.close()
    say(report.summary({"points": points}))
    return 1 if log.errors else 0
