"""The data sets that all peers run on, as raw float32 files that every worker
maps, and the right results in float64."""
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parent.parent / "tests" / "data" / "golden" / "trained"
EPSILON = 1e-6  # Flax's; PyTorch's is 1e-5
FILES = ("x", "w1", "b1", "w2", "b2", "scale", "offset")

# A result is checked on at most this many rows; float64 is slow.
CHECKED_ROWS = 64
# Worst row error |e| / |y| that still counts as right. The peers reach 1e-7 to
# 1e-6; a wrong kernel is off by far more.
TOLERANCE = 2e-5


class DataSet:
    """One block and its input rows; `orders` are those that make sense."""

    def __init__(self, folder, kind, name, orders):
        self.folder = folder
        self.kind = kind
        self.name = name
        self.orders = orders
        meta = json.loads((folder / "meta.json").read_text())
        self.d_model = meta["d_model"]
        self.d_ff = meta["d_ff"]
        self.rows = meta["rows"]
        self.epsilon = meta["epsilon"]

    def array(self, name, *shape):
        return np.memmap(self.folder / f"{name}.f32", np.float32, "r",
                         shape=shape)

    def load_command(self):
        return (f"load {self.folder} {self.d_model} {self.d_ff} {self.rows} "
                f"{self.epsilon}")

    def bytes_read(self, order, rows):
        """What a call brings in: all weights, or the rows alone."""
        if order == "norm":
            return 4 * rows * self.d_model
        return 2 * 4 * self.d_model * self.d_ff


def checked_rows(rows):
    """The first and the last row, and some between."""
    return np.unique(np.linspace(0, rows - 1, min(rows, CHECKED_ROWS))
                     .astype(int))


def write(folder, arrays, epsilon=EPSILON):
    """Writes the files of one data set; meta.json last, since it stands for
    all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        np.ascontiguousarray(arrays[name], np.float32).tofile(
            folder / f"{name}.f32")
    rows, d_model = arrays["x"].shape
    (folder / "meta.json").write_text(json.dumps({
        "d_model": d_model, "d_ff": arrays["b1"].size, "rows": rows,
        "epsilon": epsilon}))


def random_block(d_model, d_ff, rows, seed=1):
    """Weights with variance 2 / fan-in (He): about half of the hidden units are
    off, and outputs are of the order of the inputs."""
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return rng.standard_normal(shape, np.float32)

    return {
        "w1": normal(d_model, d_ff) * np.float32((2 / d_model) ** 0.5),
        "b1": normal(d_ff) * np.float32(0.1),
        "w2": normal(d_ff, d_model) * np.float32((2 / d_ff) ** 0.5),
        "b2": normal(d_model) * np.float32(0.1),
        "scale": 1 + normal(d_model) * np.float32(0.1),
        "offset": normal(d_model) * np.float32(0.1),
        # Last, so that the number of rows changes nothing else.
        "x": normal(rows, d_model),
    }


def random_set(work, d_model, d_ff, rows):
    folder = work / "data" / f"random-{d_model}x{d_ff}-{rows}"
    if not (folder / "meta.json").exists():
        write(folder, random_block(d_model, d_ff, rows))
    return DataSet(folder, "random", f"{d_model}x{d_ff}", ("pre", "post"))


def write_trained(folder, arrays, order, epsilon):
    """Real weights and inputs; the rows are turned so that the first one, which
    stands for one-row calls, has the median activity."""
    active = activity(arrays, order, epsilon).mean(axis=1)
    middle = np.argsort(active)[len(active) // 2]
    arrays["x"] = np.roll(arrays["x"], -middle, axis=0)
    write(folder, arrays, epsilon)


def trained_sets(work, say):
    """The feed-forward blocks of the two language models that the tests use,
    with their own inputs for a prompt of 64 characters, and those of the
    package that accent.py reads."""
    sets = []
    for order in ("pre", "post"):
        for source in sorted(GOLDEN.joinpath(order).glob("ffn*")):
            folder = work / "data" / f"trained-{order}-{source.name}"
            if not (folder / "meta.json").exists():
                theirs = ("x", "w1", "b1", "w2", "b2", "gamma", "beta")
                arrays = {name: np.load(source / f"{their}.npy")
                          for name, their in zip(FILES, theirs)}
                write_trained(folder, arrays, order, EPSILON)
            sets.append(DataSet(folder, "trained", f"{order}-{source.name}",
                                (order,)))
    return sets + accent_sets(work, say)


def accent_sets(work, say):
    folders = [work / "data" / f"trained-accent-{i}" for i in range(4)]
    if not all((folder / "meta.json").exists() for folder in folders):
        out = work / "data" / "accent.npz"
        done = subprocess.run(
            [sys.executable, str(HERE / "accent.py"), str(work / "accent"),
             str(out)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            say("trained model from PyPI: skipped, "
                + (done.stderr.strip().splitlines() or ["no output"])[-1])
            return []
        found = np.load(out)
        for number, folder in enumerate(folders):
            write_trained(folder, {name: found[f"{number}.{name}"]
                                   for name in FILES}, "post", 1e-5)
    return [DataSet(folder, "trained", f"accent-ffn{i}", ("post",))
            for i, folder in enumerate(folders)]


def density_set(work, d_model, d_ff, density):
    """A random block whose biases switch on a share of the hidden units for
    its one row in Pre-LN order: that many, at random places."""
    folder = work / "data" / f"density-{d_model}x{d_ff}-{density:g}"
    if not (folder / "meta.json").exists():
        arrays = random_block(d_model, d_ff, 1)
        z = layer_norm(arrays["x"].astype(float), arrays, EPSILON)
        hidden = z @ arrays["w1"]
        rng = np.random.default_rng(2)
        on = rng.permutation(d_ff) < round(density * d_ff)
        size = 0.1 + np.abs(rng.standard_normal(d_ff))
        arrays["b1"] = np.where(on, size, -size) - hidden[0]
        write(folder, arrays)
    return DataSet(folder, "density", f"{d_model}x{d_ff}", ("pre",))


# ---- float64 -----------------------------------------------------------------

def layer_norm(v, arrays, epsilon):
    v = v - v.mean(axis=1, keepdims=True)
    deviation = np.sqrt((v * v).mean(axis=1, keepdims=True) + epsilon)
    return v / deviation * arrays["scale"] + arrays["offset"]


def hidden_of(arrays, order, epsilon):
    x = np.asarray(arrays["x"], float)
    z = layer_norm(x, arrays, epsilon) if order == "pre" else x
    return np.maximum(z @ np.asarray(arrays["w1"], float) + arrays["b1"], 0)


def activity(arrays, order, epsilon):
    """Which hidden units are on, (rows, d_ff)."""
    return hidden_of(arrays, order, epsilon) > 0


class Truth:
    """Right results of one data set, computed once for each row asked for."""

    def __init__(self, data):
        d, f = data.d_model, data.d_ff
        shapes = {"x": (data.rows, d), "w1": (d, f), "b1": (f,), "w2": (f, d),
                  "b2": (d,), "scale": (d,), "offset": (d,)}
        self.arrays = {name: data.array(name, *shape)
                       for name, shape in shapes.items()}
        self.epsilon = data.epsilon
        # {row: (result, share of the hidden units that is on)}
        self.known = {"pre": {}, "post": {}, "norm": {}}

    def rows(self, order, rows):
        """The rows of a result of `rows` rows that are checked: which, what is
        right, and the share of their hidden units that is on."""
        wanted = checked_rows(rows)
        known = self.known[order]
        new = [i for i in wanted if i not in known]
        if new:
            known.update(zip(new, zip(*self.compute(order, new))))
        right, active = zip(*(known[i] for i in wanted))
        return wanted, np.stack(right), float(np.mean(active))

    def compute(self, order, rows):
        """Of some rows, the results and the shares of units that are on."""
        some = dict(self.arrays, x=self.arrays["x"][rows])
        if order == "norm":
            y = layer_norm(np.asarray(some["x"], float), some, self.epsilon)
            return y, np.ones(len(rows))
        hidden = hidden_of(some, order, self.epsilon)
        y = some["x"] + hidden @ np.asarray(some["w2"], float) + some["b2"]
        if order == "post":
            y = layer_norm(y, some, self.epsilon)
        return y, (hidden > 0).mean(axis=1)

    def active(self, order, rows):
        return self.rows(order, rows)[2]

    def error(self, order, rows, path):
        """Worst row error |e| / |y| of the result in a file; infinite where a
        row was not computed or has a NaN."""
        wanted, right, _ = self.rows(order, rows)
        y = np.fromfile(path, np.float32).reshape(rows, -1)
        error = (np.linalg.norm(y[wanted] - right, axis=1)
                 / np.linalg.norm(right, axis=1))
        computed = np.isfinite(y).all() and y.min() > -1e29
        return float(error.max()) if computed else float("inf")
