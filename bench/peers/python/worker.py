"""The main loop of a Python peer: the commands of ../cpp/worker.cc.

usage: worker.py PEER THREADS, where PEER_peer.py has create(threads)."""
import importlib
import json
import os
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

BATCH_SECONDS = 5e-4


@dataclass
class Library:
    name: str
    version: str
    note: str
    # {variant: make(weights, order, rows, x)}, which returns a function that
    # computes the block once, and one that returns the result as an array.
    variants: dict


def interruptions():
    """How often another process took a CPU from this one."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


class Weights:
    def __init__(self, folder, d_model, d_ff, epsilon):
        def array(name, *shape):
            return np.memmap(folder / f"{name}.f32", np.float32, "r",
                             shape=shape)
        self.d_model = d_model
        self.d_ff = d_ff
        self.epsilon = epsilon
        self.w1 = array("w1", d_model, d_ff)
        self.b1 = array("b1", d_ff)
        self.w2 = array("w2", d_ff, d_model)
        self.b2 = array("b2", d_model)
        self.scale = array("scale", d_model)
        self.offset = array("offset", d_model)


class Worker:
    def __init__(self, library, threads):
        self.library = library
        self.threads = threads
        self.made = {}  # {variant: (run, result)} for this point

    def load(self, folder, d_model, d_ff, rows, epsilon):
        self.made.clear()
        self.weights = None
        self.weights = Weights(Path(folder), int(d_model), int(d_ff),
                               float(epsilon))
        self.x = np.fromfile(Path(folder) / "x.f32", np.float32).reshape(
            int(rows), int(d_model))

    def point(self, order, rows):
        self.made.clear()
        self.order = order
        self.rows = int(rows)

    def prepare(self, variant):
        make = self.library.variants[variant]
        self.made[variant] = make(self.weights, self.order, self.rows,
                                  self.x[:self.rows])

    def write(self, variant, path):
        run, result = self.made[variant]
        run()  # the first call may compile
        start = time.perf_counter()
        run()
        seconds = time.perf_counter() - start
        y = np.ascontiguousarray(result(), np.float32)
        y.reshape(self.rows, self.weights.d_model).tofile(path)
        return f" {seconds:.6e}"

    def time(self, variant, warm, slot):
        run, _ = self.made[variant]
        clock = time.perf_counter
        warm, slot = float(warm), float(slot)
        start = clock()
        one = 0.0  # seconds of the fastest call; 0: none was made
        while clock() - start < warm:
            before = clock()
            run()
            seconds = clock() - before
            one = min(one, seconds) if one else seconds
        batch = max(1, int(BATCH_SECONDS / one)) if one else 1
        times, interrupted = [], []
        start = clock()
        while True:
            count = interruptions()
            cpu_before = time.process_time()
            before = clock()
            for _ in range(batch):
                run()
            seconds = clock() - before
            whole = interruptions() == count
            if not whole and self.threads == 1:
                seconds = min(seconds, time.process_time() - cpu_before)
            (times if whole else interrupted).append(seconds / batch)
            if clock() - start >= slot:
                break
        share = len(interrupted) / (len(times) + len(interrupted))
        times = sorted(times or interrupted)
        return f" {times[len(times) // 2]:.6e} {times[0]:.6e} {share:.2f}"


def main():
    # Libraries may print: what they say goes to standard error.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    peer, threads = sys.argv[1], int(sys.argv[2])
    library = importlib.import_module(f"{peer}_peer").create(threads)
    worker = Worker(library, threads)
    answers.write(json.dumps({
        "library": library.name, "version": library.version,
        "note": library.note,
        "variants": [[name, 0] for name in library.variants]}) + "\n")
    for line in sys.stdin:
        command, *words = line.split()
        try:
            answer = getattr(worker, command)(*words)
            answers.write(f"ok{answer or ''}\n")
        except Exception as failure:  # pylint: disable=broad-except
            text = f"{type(failure).__name__}: {failure}"
            answers.write("error " + " ".join(text.split())[:300] + "\n")


if __name__ == "__main__":
    # The peers import this module too: by its name it is then the same one.
    sys.modules["worker"] = sys.modules["__main__"]
    main()
