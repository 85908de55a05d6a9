"""`ffnorm run`: the bits of the scalar reference, and Flax's values within its
own float32 error, on every target, in both orders."""
import array
import os
import unittest

from support import (FAILED, TINYLM, TRAINED, USAGE, Block, Case,
                     float_bytes, npy, read_npy, safetensors, targets)

# As far from Flax in float64 as this many times Flax in float32.
TIMES_FLAX_ERROR = 2.0


def f64(path):
    with open(path, "rb") as file:
        content = file.read()
    start = 10 + int.from_bytes(content[8:10], "little")
    return array.array("d", content[start:])


class Run(Case):
    def packed(self, block, order="pre", epsilon="1e-6"):
        self.write("m.safetensors", safetensors(block.tensors("b.", TINYLM[0])))
        self.ok("pack", "m.safetensors", "--order", order, "--epsilon", epsilon)
        return f"b.{order}.ffnorm"

    def rows(self, shape, seed=7):
        """Values that vary in size as well, as the last rows' do."""
        count = 1
        for extent in shape:
            count *= extent
        block = Block(max(count, 1), 1, "in_out", seed)
        return [v * (1 + i % 5) for i, v in
                enumerate(block.values["w1"][:count])]

    def reference(self, block, rounding, order, x, epsilon="1e-6"):
        self.write("x.f32", float_bytes(x))
        return block.expected(self.folder, "forward", epsilon, rounding, order,
                              str(len(x) // block.d_model), self.path("x.f32"))

    def test_bits_on_every_target(self):
        block = Block(70, 130, "in_out")
        packed = self.packed(block)
        x = self.rows((9, 70))
        self.write("x.npy", npy((9, 70), float_bytes(x)))
        results = {}
        for target, rounding in targets():
            for order in ("pre", "post"):
                said = self.ok("run", packed, "x.npy", "-o", "y.npy", "--order",
                               order, FFNORM_TARGET=target)
                shape, y = read_npy(self.path("y.npy"))
                self.assertEqual(shape, (9, 70))
                self.assertEqual(
                    y, self.reference(block, rounding, order, x))
                self.assertIn(f"{order.title()}-LN on {target},", said)
                results[rounding, order] = y
        # That the comparison can fail: orders and classes differ.
        self.assertEqual(len(set(results.values())), len(results))

    def test_shapes_and_threads(self):
        block = Block(16, 40, "in_out")
        packed = self.packed(block, "post")
        best = targets()[0][1]
        for shape in ((16,), (1, 16), (3, 16), (2, 3, 5, 16), (0, 16),
                      (4, 0, 16)):
            x = self.rows(shape)
            self.write("x.npy", npy(shape, float_bytes(x)))
            expected = self.reference(block, best, "post", x) if x else b""
            for threads in (1, 3):
                self.ok("run", packed, "x.npy", "--threads", threads)
                self.assertEqual(read_npy(self.path("y.npy")),
                                 (shape, expected))

    def test_order_is_in_the_name(self):
        block = Block(16, 40, "in_out")
        x = self.rows((2, 16))
        self.write("x.npy", npy((2, 16), float_bytes(x)))
        best = targets()[0][1]
        for order in ("pre", "post"):
            self.ok("run", self.packed(block, order), "x.npy")
            self.assertEqual(read_npy(self.path("y.npy"))[1],
                             self.reference(block, best, order, x))
        os.rename(self.path("b.pre.ffnorm"), self.path("b.ffnorm"))
        self.bad(USAGE, "give --order", "run", "b.ffnorm", "x.npy")

    def test_trained(self):
        """From Flax's own weights to Flax's own results."""
        for order in ("pre", "post"):
            for layer in range(3):
                folder = os.path.join(TRAINED, order, f"ffn{layer}")
                tensors = {}
                for name in TINYLM[0]:
                    shape, data = read_npy(os.path.join(folder, name + ".npy"))
                    tensors[f"ffn{layer}.{name}"] = ("F32", shape, data)
                self.write("m.safetensors", safetensors(
                    tensors, {"order": order, "epsilon": "1e-06"}))
                self.ok("pack", "m.safetensors")
                self.ok("run", f"ffn{layer}.{order}.ffnorm",
                        os.path.join(folder, "x.npy"))
                y = array.array("f", read_npy(self.path("y.npy"))[1])
                flax = array.array(
                    "f", read_npy(os.path.join(folder, "y_f32.npy"))[1])
                truth = f64(os.path.join(folder, "y_f64.npy"))
                self.assertEqual(len(y), len(truth))
                ours, theirs = (max(abs(a - b) for a, b in zip(values, truth))
                                for values in (y, flax))
                self.assertGreater(theirs, 0)
                self.assertLessEqual(ours, TIMES_FLAX_ERROR * theirs)

    def test_output_replaces_links_targets_and_keeps_modes(self):
        block = Block(16, 40, "in_out")
        packed = self.packed(block)
        self.write("x.npy", npy((16,), float_bytes(self.rows((16,)))))
        self.write("there.npy", b"old")
        os.chmod(self.path("there.npy"), 0o640)
        os.symlink("there.npy", self.path("link.npy"))
        self.ok("run", packed, "x.npy", "-o", "link.npy")
        self.assertTrue(os.path.islink(self.path("link.npy")))
        self.assertEqual(read_npy(self.path("there.npy"))[0], (16,))
        self.assertEqual(os.stat(self.path("there.npy")).st_mode & 0o777, 0o640)
        # In place, and to what is no file.
        self.ok("run", packed, "x.npy", "-o", "x.npy")
        self.assertEqual(read_npy(self.path("x.npy")),
                         read_npy(self.path("there.npy")))
        self.ok("run", packed, "x.npy", "-o", "/dev/null")
        self.assertFalse(os.path.isfile("/dev/null"))

    def test_outputs_that_cannot_be(self):
        block = Block(16, 40, "in_out")
        packed = self.packed(block)
        self.write("x.npy", npy((16,), float_bytes(self.rows((16,)))))
        for y in ("no/such/y.npy", ".", "x.npy/y.npy", "y" * 300):
            self.bad(FAILED, "cannot be written", "run", packed, "x.npy", "-o",
                     y)
        if os.path.exists("/dev/full"):
            self.bad(FAILED, "/dev/full: cannot be written", "run", packed,
                     "x.npy", "-o", "/dev/full")


if __name__ == "__main__":
    unittest.main(verbosity=2)
