"""Checks and times all peers at one point, in rounds."""
import statistics
import time

import data as data_sets
from workers import Failed

SLOT_SECONDS = 0.02
WARM_SECONDS = 0.005
# A call that takes longer needs no warming: it brings its weights in itself.
LONG_CALL_SECONDS = 0.02
MIN_ROUNDS = 3
MAX_ROUNDS = 25
# After MIN_ROUNDS, peers this much slower than the best one are timed no more.
CONTENDER = 1.3
# While the median round of one of those that are left is this much slower than
# its best one, a point gets up to so many times its share of the time: in most
# of its rounds the machine may have been doing something else.
UNSETTLED = 1.15
MOST_SHARES = 4


class Contestant:
    """One way of one library to compute the block, at one point."""

    def __init__(self, worker, variant):
        self.worker = worker
        self.variant = variant
        self.first_seconds = 0.0
        self.accuracy = None
        self.rounds = []  # median seconds a call, each round
        self.best = float("inf")
        self.interrupted = []  # share of the batches, each round

    @property
    def name(self):
        return f"{self.worker.library} {self.variant}"

    @property
    def seconds(self):
        return statistics.median(self.rounds)

    @property
    def settled(self):
        return self.seconds <= UNSETTLED * min(self.rounds)

    def check(self, truth, order, rows, file):
        """Its accuracy; raises Failed if it is wrong or cannot do this."""
        self.worker.ask(f"prepare {self.variant}")
        self.first_seconds, = self.worker.ask(f"write {self.variant} {file}")
        self.accuracy = truth.error(order, rows, file)

    def time(self, slot):
        long = self.first_seconds > LONG_CALL_SECONDS
        warm = 0 if long else WARM_SECONDS
        median, best, share = self.worker.call(
            f"time {self.variant} {warm} {slot}")
        self.rounds.append(median)
        self.best = min(self.best, best)
        self.interrupted.append(share)

    def result(self):
        return {"library": self.worker.library, "variant": self.variant,
                "seconds": self.seconds, "best_seconds": self.best,
                "accuracy": self.accuracy, "rounds": self.rounds,
                "interrupted": statistics.mean(self.interrupted)}


class Roof:
    """FMA peak and read bandwidth, measured in the rounds."""

    def __init__(self, worker):
        self.worker = worker
        self.peaks = []
        self.reads = []

    def time(self, read_bytes):
        with self.worker.running():
            self.peaks += self.worker.ask("peak")
            self.reads += self.worker.ask(f"read {read_bytes}")

    def values(self, rows):
        """Peak, bandwidth, and what they allow: each weight, 4 bytes, is used
        in `rows` multiply-adds."""
        peak = statistics.median(self.peaks)
        read = statistics.median(self.reads)
        return {"peak_flops": peak, "read_bytes_per_second": read,
                "roof_flops": min(peak, read * rows / 2)}


def load(fleet, data, say):
    """Brings a data set to every worker; those that cannot take it go."""
    for worker in list(fleet.workers):
        try:
            worker.call(data.load_command())
        except Failed as why:
            fleet.drop(worker, why, say)


def enter(fleet, truth, order, rows, file, report):
    """Prepares and checks all contestants; returns those to be timed."""
    contestants = []
    for worker in list(fleet.workers):
        for variant, most_rows in worker.variants:
            if most_rows and rows > most_rows:
                continue
            contestant = Contestant(worker, variant)
            try:
                with worker.running():
                    worker.ask(f"point {order} {rows}")
                    contestant.check(truth, order, rows, file)
            except Failed as why:
                if worker.process.poll() is not None:
                    fleet.drop(worker, why, report.say)
                    break
                report.skip(contestant.name, order, rows, str(why))
                continue
            if contestant.accuracy > data_sets.TOLERANCE:
                report.wrong(contestant.name, order, rows, contestant.accuracy)
                continue
            contestants.append(contestant)
    return contestants


def contenders(contestants):
    """ffnorm, and the peers that may be the best one."""
    best = min((c.seconds for c in contestants if c.worker.name != "ffnorm"),
               default=0.0)
    return [c for c in contestants
            if c.worker.name == "ffnorm" or c.seconds <= CONTENDER * best]


def measure(fleet, data, truth, order, rows, seconds, file, report,
            most_shares=MOST_SHARES):
    """One point, for about `seconds` but MIN_ROUNDS at least, and longer while
    it is unsettled."""
    start = time.monotonic()
    contestants = enter(fleet, truth, order, rows, file, report)
    roof = Roof(fleet.roof)
    racing = list(contestants)
    for number in range(MAX_ROUNDS):
        spent = time.monotonic() - start
        if number == MIN_ROUNDS:
            racing = contenders(contestants)
            seconds = max(seconds, spent)
        if number >= MIN_ROUNDS and (
                spent >= most_shares * seconds or
                spent >= seconds and all(c.settled for c in racing)):
            break
        roof.time(data.bytes_read(order, rows))
        if not racing:
            break
        turn = number % len(racing)
        for contestant in racing[turn:] + racing[:turn]:
            try:
                contestant.time(SLOT_SECONDS)
            except Failed as why:
                gone = contestant.worker
                racing = [c for c in racing if c.worker is not gone]
                contestants = [c for c in contestants if c.worker is not gone]
                if gone in fleet.workers:
                    fleet.drop(gone, why, report.say)
    return {"data": data.kind, "name": data.name, "order": order,
            "d_model": data.d_model, "d_ff": data.d_ff, "rows": rows,
            "threads": fleet.threads, "active": truth.active(order, rows),
            **roof.values(rows), "results": [c.result() for c in contestants]}


def measure_density(worker, roof_worker, sets, rounds):
    """One-row time of ffnorm for data sets that differ in density, in rounds;
    `sets` is {density: DataSet}."""
    times = {density: [] for density in sets}
    roof = Roof(roof_worker)
    for _ in range(rounds):
        for density, data in sets.items():
            variant = worker.variants[0][0]
            with worker.running():
                worker.ask(data.load_command())
                worker.ask("point pre 1")
                worker.ask(f"prepare {variant}")
                times[density].append(worker.ask(
                    f"time {variant} {WARM_SECONDS} {SLOT_SECONDS}")[0])
        roof.time(data.bytes_read("pre", 1))
    return {"d_model": data.d_model, "d_ff": data.d_ff, "rows": 1, "order":
            "pre", **roof.values(1),
            "series": [{"density": density, "seconds": statistics.median(t),
                        "rounds": t} for density, t in times.items()]}
