"""What the tests of the program share: small writers of its file formats (the
standard library is all they need), and how the program is run."""
import array
import ast
import json
import os
import random
import struct
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["FFNORM"]
EXPECTED = os.environ["FFNORM_EXPECTED"]
TRAINED = os.environ["FFNORM_TRAINED"]

DONE, FAILED, USAGE = 0, 1, 2
PARTS = ("w1", "b1", "w2", "b2", "scale", "offset")

# How known models call the parts of a block; and are its weights (in, out)?
FLAX = (("Dense_0/kernel", "Dense_0/bias", "Dense_1/kernel", "Dense_1/bias",
         "LayerNorm_0/scale", "LayerNorm_0/bias"), "in_out")
TORCH = (("linear1.weight", "linear1.bias", "linear2.weight", "linear2.bias",
          "norm2.weight", "norm2.bias"), "out_in")
OPT = (("fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias",
        "final_layer_norm.weight", "final_layer_norm.bias"), "out_in")
TINYLM = (("w1", "b1", "w2", "b2", "gamma", "beta"), "in_out")


def float_bytes(values):
    return array.array("f", values).tobytes()


def read_npy(path):
    """The shape and the values' bytes of a float32 .npy file in C order."""
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack("<H", content[8:10])
    header = content[10:10 + length].decode()
    assert content[:8] == b"\x93NUMPY\1\0" and (10 + length) % 64 == 0
    fields = ast.literal_eval(header)
    assert set(fields) == {"descr", "fortran_order", "shape"}
    assert fields["descr"] == "<f4" and fields["fortran_order"] is False
    return fields["shape"], content[10 + length:]


def npy(shape, data, descr="<f4", fortran=False):
    """The bytes of a .npy file."""
    header = str({"descr": descr, "fortran_order": fortran, "shape": shape})
    header += " " * (-(10 + len(header) + 1) % 64) + "\n"
    return (b"\x93NUMPY\1\0" + struct.pack("<H", len(header))
            + header.encode() + data)


def safetensors(tensors, metadata=None):
    """The bytes of a file of {name: (type, shape, data)}."""
    header, place = {}, 0
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, (kind, shape, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": list(shape),
                        "data_offsets": [place, place + len(data)]}
        place += len(data)
    text = json.dumps(header).encode()
    return (struct.pack("<Q", len(text)) + text
            + b"".join(data for _, _, data in tensors.values()))


class Block:
    """A block of random weights in one layout; without those of `missing`."""

    def __init__(self, d_model, d_ff, layout, seed=1, missing=(), digits=None):
        random.seed(seed)
        self.d_model, self.d_ff, self.layout = d_model, d_ff, layout
        w1 = (d_model, d_ff) if layout == "in_out" else (d_ff, d_model)
        shapes = (w1, (d_ff,), w1[::-1], (d_model,), (d_model,), (d_model,))
        self.shapes = dict(zip(PARTS, shapes))
        self.values = {}
        for part, shape in self.shapes.items():
            if part in missing:
                continue
            count = shape[0] * (shape[1] if len(shape) == 2 else 1)
            self.values[part] = [random.gauss(part == "scale", 0.5)
                                 for _ in range(count)]
            if digits is not None:  # few enough for the halved types
                self.values[part] = [round(v * 2**digits) / 2**digits
                                     for v in self.values[part]]

    def tensors(self, prefix, names, kind="F32"):
        return {prefix + name: (kind, self.shapes[part],
                                ENCODE[kind](self.values[part]))
                for part, name in zip(PARTS, names) if part in self.values}

    def expected(self, folder, command, epsilon, *more):
        """What the library makes of it."""
        path = os.path.join(folder, "weights.f32")
        with open(path, "wb") as file:
            for part in PARTS:
                file.write(float_bytes(self.values.get(part, ())))
        parts = "".join("01"[part in self.values] for part in PARTS)
        return subprocess.run(
            [EXPECTED, command, str(self.d_model), str(self.d_ff), self.layout,
             str(epsilon), parts, path, *more],
            check=True, stdout=subprocess.PIPE).stdout


def bfloat16(values):
    return b"".join(struct.pack("<f", value)[2:] for value in values)


ENCODE = {"F32": float_bytes, "BF16": bfloat16,
          "F16": lambda values: struct.pack(f"<{len(values)}e", *values),
          "F64": lambda values: array.array("d", values).tobytes()}


def targets():
    """[(name, class)], the best one first."""
    lines = subprocess.run([EXPECTED, "targets"], check=True, text=True,
                           stdout=subprocess.PIPE).stdout.splitlines()
    return [tuple(line.split()) for line in lines]


class Case(unittest.TestCase):
    """A test with a folder of its own, in which the program runs."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(content)
        return name

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def files(self):
        """The names of all files, hidden ones too."""
        return sorted(os.path.relpath(os.path.join(folder, name), self.folder)
                      for folder, _, names in os.walk(self.folder)
                      for name in names)

    def run_program(self, *arguments, **variables):
        environment = {k: v for k, v in os.environ.items()
                       if k not in ("FFNORM_TARGET", "NO_COLOR")}
        return subprocess.run([PROGRAM, *map(str, arguments)],
                              cwd=self.folder, capture_output=True,
                              stdin=subprocess.DEVNULL, text=True,
                              env={**environment, **variables}, timeout=200)

    def ok(self, *arguments, **variables):
        """Runs it; all went well, and stderr is empty. Returns stdout."""
        done = self.run_program(*arguments, **variables)
        self.assertEqual((done.returncode, done.stderr), (DONE, ""), done)
        return done.stdout

    def bad(self, status, said, *arguments, **variables):
        """Runs it: the exit status, one line on stderr that contains `said`,
        nothing on stdout, and no file more or less than before."""
        before = {name: self.read(name) for name in self.files()}
        done = self.run_program(*arguments, **variables)
        self.assertEqual(done.returncode, status, done)
        self.assertRegex(done.stderr, r"\Affnorm: [^\n]+\n\Z")
        self.assertIn(said, done.stderr)
        self.assertTrue(done.stderr.isprintable() or
                        done.stderr[:-1].isprintable(), repr(done.stderr))
        self.assertEqual(done.stdout, "")
        self.assertEqual({name: self.read(name) for name in self.files()},
                         before)
