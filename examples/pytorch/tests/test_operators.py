"""torch.ops.ffnorm.* against the reference, bit for bit, and what it refuses."""
import io
import os
import threading
import unittest

import torch

import ffnorm_torch  # noqa: F401  (loads the operators)
import rounding_error

pack = torch.ops.ffnorm.pack
forward = torch.ops.ffnorm.forward
reference = torch.ops.ffnorm.reference_forward

EPSILON = 1e-5
SHAPES = [(1, 1), (8, 32), (33, 70), (72, 200), (256, 1024), (512, 2048)]


def parameters(d_model, d_ff, bias=True, seed=0):
    """(w1, b1, w2, b2, scale, offset), of nn.Linear's sizes."""
    draw = torch.Generator().manual_seed(seed)

    def uniform(*shape, limit):
        return (torch.rand(shape, generator=draw) * 2 - 1) * limit

    w1 = uniform(d_ff, d_model, limit=d_model**-0.5)
    w2 = uniform(d_model, d_ff, limit=d_ff**-0.5)
    if not bias:
        return w1, None, w2, None, uniform(d_model, limit=2.0), None
    return (w1, uniform(d_ff, limit=0.5), w2, uniform(d_model, limit=0.5),
            uniform(d_model, limit=2.0), uniform(d_model, limit=1.0))


def same(a, b):
    """Equal in shape and value; NaN is nothing's equal."""
    return a.shape == b.shape and bool((a == b).all())


class SameBits(unittest.TestCase):

    def check(self, x, weights, changed=True):
        packed = pack(*weights, EPSILON)
        for norm_first in (False, True):
            y = forward(x, packed, norm_first)
            expected = reference(x, *weights, EPSILON, norm_first)
            self.assertTrue(same(y, expected), f"norm_first={norm_first}")
            self.assertTrue(y.is_contiguous())
            # Equal bits mean nothing if both left x as it was.
            self.assertEqual(same(y, x), not changed)

    def test_shapes(self):
        for d_model, d_ff in SHAPES:
            for rows in ((), (1,), (3,), (2, 5), (2, 2, 3)):
                with self.subTest(d_model=d_model, d_ff=d_ff, rows=rows):
                    self.check(torch.randn(*rows, d_model),
                               parameters(d_model, d_ff))

    def test_many_rows(self):
        self.check(torch.randn(7, 43, 40), parameters(40, 100))

    def test_no_bias_no_offset(self):
        self.check(torch.randn(4, 72), parameters(72, 200, bias=False))

    def test_no_scale(self):
        w1, b1, w2, b2, _, offset = parameters(72, 200)
        self.check(torch.randn(4, 72), (w1, b1, w2, b2, None, offset))

    def test_no_rows(self):
        self.check(torch.randn(0, 72), parameters(72, 200), changed=False)
        self.check(torch.randn(2, 0, 72), parameters(72, 200), changed=False)

    def test_inputs_that_are_not_contiguous(self):
        weights = parameters(72, 200)
        wide = torch.randn(6, 5, 200)
        for name, x in {
                "transposed": torch.randn(6, 5, 72).transpose(0, 1),
                "rows of wider rows": wide[..., 100:172],
                "every second row": torch.randn(12, 72)[::2],
                "every second element": torch.randn(6, 144)[:, ::2],
                "columns": torch.randn(72, 6).T,
                "one row for all": torch.randn(72).expand(6, 72),
                "overlapping rows": torch.randn(200).as_strided((6, 72), (7, 1)),
                "one row, strange stride":
                    torch.randn(80).as_strided((1, 72), (3, 1)),
                "one value for all": torch.ones(1).expand(6, 72)}.items():
            with self.subTest(name):
                self.check(x, weights)
                packed = pack(*weights, EPSILON)
                self.assertTrue(same(forward(x, packed, True),
                                     forward(x.clone(), packed, True)))

    def test_weights_that_are_not_contiguous(self):
        w1, b1, w2, b2, scale, offset = parameters(72, 200)
        apart = (w1.T.contiguous().T, b1.repeat(2)[:200],
                 w2.repeat(1, 2)[:, :200], b2, scale.expand(2, 72)[1], offset)
        self.assertTrue(torch.equal(pack(*apart, EPSILON),
                                    pack(w1, b1, w2, b2, scale, offset,
                                         EPSILON)))

    def test_a_nan_stays_in_its_row(self):
        weights = parameters(72, 200)
        packed = pack(*weights, EPSILON)
        x = torch.randn(6, 72)
        damaged = x.clone()
        damaged[2, 3] = float("nan")
        for norm_first in (False, True):
            y = forward(damaged, packed, norm_first)
            others = [0, 1, 3, 4, 5]
            self.assertTrue(same(y[others],
                                 forward(x, packed, norm_first)[others]))
            self.assertTrue(y[2].isnan().all())


class Threads(unittest.TestCase):

    def setUp(self):
        self.addCleanup(torch.set_num_threads, torch.get_num_threads())

    def test_torch_threads(self):
        for d_model, d_ff, rows in ((72, 200, 300), (256, 1024, 1)):
            weights = parameters(d_model, d_ff)
            packed = pack(*weights, EPSILON)
            x = torch.randn(rows, d_model)
            expected = reference(x, *weights, EPSILON, True)
            for threads in (1, 2, 3, 5, 1):
                torch.set_num_threads(threads)
                self.assertTrue(same(forward(x, packed, True), expected),
                                f"{threads} threads, {rows} rows")

    def test_work_goes_to_torch_threads(self):
        """Two threads do the work, one not much less than the other."""
        weights = parameters(256, 1024)
        packed = pack(*weights, EPSILON)
        x = torch.randn(2000, 256)
        torch.set_num_threads(2)
        before = _thread_seconds()
        for _ in range(10):
            forward(x, packed, True)
        used = sorted(after - before.get(thread, 0.0)
                      for thread, after in _thread_seconds().items())
        self.assertGreater(used[-2], 0.25 * used[-1], used)

    def test_callers_at_the_same_time(self):
        weights = parameters(72, 200)
        packed = pack(*weights, EPSILON)
        inputs = [torch.randn(rows, 72) for rows in (1, 50, 9, 300)]
        expected = [forward(x, packed, True) for x in inputs]
        wrong = []

        def call(x, y):
            for _ in range(50):
                if not same(forward(x, packed, True), y):
                    wrong.append(x.shape)

        callers = [threading.Thread(target=call, args=pair)
                   for pair in zip(inputs, expected)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        self.assertEqual(wrong, [])


def _thread_seconds():
    """CPU time of each thread of this process."""
    seconds = {}
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/stat", encoding="ascii") as file:
            user, system = file.read().rsplit(")", 1)[1].split()[11:13]
        seconds[thread] = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return seconds


class Accuracy(unittest.TestCase):

    def test_within_what_roundings_may_do(self):
        for d_model, d_ff in SHAPES[1:]:
            weights = parameters(d_model, d_ff)
            packed = pack(*weights, EPSILON)
            x = torch.randn(20, d_model)
            for norm_first in (False, True):
                allowed = rounding_error.half(rounding_error.FFNORM, x,
                                              *weights, EPSILON, norm_first)
                error = (forward(x, packed, norm_first) - allowed.value).abs()
                with self.subTest(d_model=d_model, norm_first=norm_first):
                    self.assertTrue((error <= allowed.error).all(),
                                    (error / allowed.error).max())


class Packed(unittest.TestCase):

    def test_saved_and_loaded(self):
        packed = pack(*parameters(72, 200), EPSILON)
        file = io.BytesIO()
        torch.save(packed, file)
        file.seek(0)
        x = torch.randn(3, 72)
        self.assertTrue(same(forward(x, torch.load(file), True),
                             forward(x, packed, True)))

    def test_holds_copies(self):
        weights = parameters(72, 200)
        x = torch.randn(3, 72)
        packed = pack(*weights, EPSILON)
        before = forward(x, packed, True)
        weights[0].zero_()
        self.assertTrue(same(forward(x, packed, True), before))


class Refused(unittest.TestCase):

    def setUp(self):
        self.weights = parameters(72, 200)
        self.packed = pack(*self.weights, EPSILON)
        self.x = torch.randn(3, 72)

    def refuses(self, said, call, *args):
        with self.assertRaisesRegex(RuntimeError, said):
            call(*args)

    def test_inputs(self):
        for x in (self.x.double(), self.x.bfloat16(), self.x.half(),
                  self.x.long()):
            self.refuses("x must be a float32 tensor on the CPU, not",
                         forward, x, self.packed, True)
        for x in (torch.tensor(1.0), self.x[:, :71], torch.randn(72, 3)):
            self.refuses("the last dimension of x must be d_model, 72",
                         forward, x, self.packed, True)

    def test_packed(self):
        aside = torch.empty(len(self.packed) + 1, dtype=torch.uint8)[1:]
        aside.copy_(self.packed)
        damaged = self.packed.clone()
        damaged[0] += 1
        for packed, said in ((self.packed.float(), "what ffnorm.pack returned"),
                             (self.packed[None], "what ffnorm.pack returned"),
                             (self.packed[::2], "what ffnorm.pack returned"),
                             (self.packed[:-64], "ffnorm.forward"),
                             (self.packed[:0], "ffnorm.forward"),
                             (aside, "ffnorm.forward"),
                             (damaged, "ffnorm.forward")):
            self.refuses(said, forward, self.x, packed, True)

    def test_parameters(self):
        names = ("w1", "b1", "w2", "b2", "scale", "offset")
        for index, name in enumerate(names):
            for change, said in ((torch.Tensor.double, f"{name} must be a float32"),
                                 (lambda t: t[None], f"w1|{name} must be")):
                changed = list(self.weights)
                changed[index] = change(changed[index])
                self.refuses(said, pack, *changed, EPSILON)
        turned = list(self.weights)
        turned[2] = turned[2].T
        self.refuses(r"w2 must be \[72, 200\]", pack, *turned, EPSILON)
        for epsilon in (-1.0, float("nan"), float("inf")):
            self.refuses("ffnorm.pack", pack, *self.weights, epsilon)
        self.refuses("ffnorm.pack", pack, torch.zeros(0, 72), None,
                     torch.zeros(72, 0), None, None, None, EPSILON)

    def test_gradients(self):
        x = self.x.requires_grad_()
        self.refuses("has no gradient", forward, x, self.packed, True)
        with torch.no_grad():
            self.assertFalse(forward(x, self.packed, True).requires_grad)
        with torch.inference_mode():
            self.assertTrue(forward(x, self.packed, True).is_inference())


class ShapesOnly(unittest.TestCase):

    def test_meta(self):
        packed = pack(*parameters(72, 200), EPSILON)
        x = torch.empty(2, 3, 72, device="meta")
        y = forward(x, packed.to("meta"), True)
        self.assertEqual((y.shape, y.device.type), ((2, 3, 72), "meta"))


if __name__ == "__main__":
    unittest.main()
