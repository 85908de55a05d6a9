"""Layers with ffnorm for their feed-forward half: the right numbers, eager
wherever ffnorm does not fit, packed parameters that never go stale."""
import copy
import io
import pickle
import unittest

import torch
from torch import nn
from torch.nn import functional as F

import ffnorm_torch
import rounding_error

D_MODEL, HEADS, D_FF = 64, 4, 200
SINCE_2_0 = hasattr(torch, "compile")


def encoder_layer(norm_first=False, seed=0, **options):
    torch.manual_seed(seed)
    layer = nn.TransformerEncoderLayer(D_MODEL, HEADS, D_FF,
                                       norm_first=norm_first, **options)
    return shaken(layer).eval()


def decoder_layer(norm_first=False, seed=0, **options):
    torch.manual_seed(seed)
    layer = nn.TransformerDecoderLayer(D_MODEL, HEADS, D_FF,
                                       norm_first=norm_first, **options)
    return shaken(layer).eval()


def shaken(module):
    """Fresh layers have LayerNorms of ones and zeros."""
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return module


def replaced(module):
    copied = copy.deepcopy(module)
    ffnorm_torch.replace_feed_forward(copied)
    return copied


def attention_half(layer, x, masks=(), memory=()):
    """What enters the feed-forward half, by torch alone."""
    norms = [layer.norm1]
    blocks = [lambda z: layer._sa_block(z, *masks or (None, None))]
    if isinstance(layer, nn.TransformerDecoderLayer):
        norms.append(layer.norm2)
        blocks.append(lambda z: layer._mha_block(z, *memory, None, None))
    for norm, block in zip(norms, blocks):
        x = x + block(norm(x)) if layer.norm_first else norm(x + block(x))
    return x


def parts(layer):
    norm = (layer.norm3 if isinstance(layer, nn.TransformerDecoderLayer)
            else layer.norm2)
    return norm, (layer.linear1.weight, layer.linear1.bias,
                  layer.linear2.weight, layer.linear2.bias, norm.weight,
                  norm.bias)


def reference_half(layer, x):
    """The definition of the feed-forward half's bits."""
    norm, weights = parts(layer)
    return torch.ops.ffnorm.reference_forward(
        x, *(w if w is None else w.detach() for w in weights), norm.eps,
        layer.norm_first)


def eager_half(layer, x):
    norm, _ = parts(layer)
    if layer.norm_first:
        return x + layer._ff_block(norm(x))
    return norm(x + layer._ff_block(x))


def same(a, b):
    return a.shape == b.shape and bool((a == b).all())


class TestCase(unittest.TestCase):

    def assert_ffnorm(self, layer, x, *args):
        """The layer's output is the reference's, bit for bit, and so it went
        through ffnorm."""
        y = layer(x, *args)
        memory = args if isinstance(layer, nn.TransformerDecoderLayer) else ()
        expected = reference_half(layer, attention_half(layer, x,
                                                        memory=memory))
        self.assertTrue(same(y, expected))

    def assert_eager(self, layer, original, x, reason):
        """The output is the original's; `reason` is what is given for it."""
        self.assertRegex(layer.why_eager(x), reason)
        self.assertTrue(same(layer(x), original(x)))


class RightNumbers(TestCase):

    def setUp(self):
        no_grad = torch.no_grad()
        no_grad.__enter__()
        self.addCleanup(no_grad.__exit__, None, None, None)

    def test_encoder_layers(self):
        for norm_first in (False, True):
            for batch_first in (False, True):
                layer = replaced(encoder_layer(norm_first,
                                               batch_first=batch_first))
                for shape in ((1, D_MODEL), (7, D_MODEL), (2, 5, D_MODEL),
                              (1, 1, D_MODEL), (33, 9, D_MODEL)):
                    with self.subTest(norm_first=norm_first, shape=shape,
                                      batch_first=batch_first):
                        self.assert_ffnorm(layer, torch.randn(shape))

    def test_input_that_is_not_contiguous(self):
        layer = replaced(encoder_layer(norm_first=True))
        self.assert_ffnorm(layer, torch.randn(5, 3, D_MODEL).transpose(0, 1))
        self.assert_ffnorm(layer, torch.randn(5, 3, 2 * D_MODEL)[..., ::2])

    def test_decoder_layers(self):
        for norm_first in (False, True):
            layer = replaced(decoder_layer(norm_first))
            with self.subTest(norm_first=norm_first):
                self.assert_ffnorm(layer, torch.randn(7, 2, D_MODEL),
                                   torch.randn(4, 2, D_MODEL))

    @unittest.skipUnless(SINCE_2_0, "torch's layers have no bias=False")
    def test_no_bias(self):
        layer = replaced(encoder_layer(bias=False))
        self.assertIsNone(layer.norm2.bias)
        self.assert_ffnorm(layer, torch.randn(3, 2, D_MODEL))

    def test_kinds_of_relu(self):
        for relu in ("relu", F.relu, torch.relu, nn.ReLU()):
            layer = replaced(encoder_layer(activation=relu))
            self.assert_ffnorm(layer, torch.randn(3, 2, D_MODEL))

    def test_epsilon_is_the_layers(self):
        self.assertEqual(encoder_layer().norm2.eps, 1e-5)
        for epsilon in (1e-5, 1e-12, 0.1):
            layer = replaced(encoder_layer(layer_norm_eps=epsilon))
            self.assert_ffnorm(layer, torch.randn(3, 2, D_MODEL))

    def test_half_within_what_roundings_may_do(self):
        """Both stay near float64's result, and so near each other."""
        for norm_first in (False, True):
            layer = replaced(encoder_layer(norm_first))
            norm, weights = parts(layer)
            x = torch.randn(50, D_MODEL)
            ours, eager = layer.feed_forward(x), eager_half(layer, x)
            allowed = [rounding_error.half(order, x, *weights, norm.eps,
                                           norm_first)
                       for order in (rounding_error.FFNORM,
                                     rounding_error.EAGER)]
            self.assertTrue(((ours - allowed[0].value).abs()
                             <= allowed[0].error).all())
            self.assertTrue(((ours.double() - eager.double()).abs()
                             <= allowed[0].error + allowed[1].error).all())

    def test_whole_layers_and_stacks(self):
        """Against the float64 copy of the original: at most 4 times as far off
        as the original is in float32. This is where masks would get lost."""
        x, memory = torch.randn(3, 6, D_MODEL), torch.randn(3, 4, D_MODEL)
        causal = torch.ones(6, 6).triu(1).bool()
        padding = torch.tensor([[0] * 6, [0] * 4 + [1] * 2, [0] * 5 + [1]])
        padding = padding.bool()
        for norm_first in (False, True):
            encoder = encoder_layer(norm_first, batch_first=True)
            decoder = decoder_layer(norm_first, batch_first=True)
            stack = nn.TransformerEncoder(encoder, 2, nn.LayerNorm(D_MODEL))
            both = shaken(nn.Transformer(
                D_MODEL, HEADS, 2, 2, D_FF, batch_first=True,
                norm_first=norm_first)).eval()
            cases = {
                "layer": (encoder, (x,), {}),
                "causal": (encoder, (x,), {"src_mask": causal}),
                "causal, by place": (encoder, (x, causal), {}),
                "padding": (encoder, (x,), {"src_key_padding_mask": padding}),
                "decoder": (decoder, (x, memory), {}),
                "decoder, causal": (decoder, (x, memory),
                                    {"tgt_mask": causal}),
                "decoder, to padding": (
                    decoder, (memory, x),
                    {"memory_key_padding_mask": padding}),
                "stack": (stack.eval(), (x,), {}),
                "stack, causal": (stack, (x,), {"mask": causal}),
                "stack, padding": (stack, (x,),
                                   {"src_key_padding_mask": padding}),
                "both": (both, (x, memory), {}),
            }
            for name, (model, args, options) in cases.items():
                with self.subTest(name, norm_first=norm_first):
                    self.check_model(model, args, options, padding)

    def check_model(self, model, args, options, padding):
        def run(module, dtype=torch.float32):
            y = module(*(a.to(dtype) if a.is_floating_point() else a
                         for a in args), **options)
            if "src_key_padding_mask" in options:
                y = y[~padding]  # what stands in padding means nothing
            return y.double()

        truth = run(copy.deepcopy(model).double(), torch.float64)
        eager = run(model)
        ours = run(replaced(model))
        self.assertFalse(same(ours, eager))  # or it was not ffnorm
        self.assertLessEqual((ours - truth).abs().max(),
                             4 * (eager - truth).abs().max())


class Eager(TestCase):

    def setUp(self):
        self.original = encoder_layer(batch_first=True)
        self.layer = replaced(self.original)
        self.x = torch.randn(2, 5, D_MODEL)

    def check(self, reason, x=None):
        self.assert_eager(self.layer, self.original,
                          self.x if x is None else x, reason)

    def test_gradients(self):
        self.check("a gradient is wanted")
        x = [self.x.clone().requires_grad_() for _ in range(2)]
        for layer, leaf in zip((self.layer, self.original), x):
            layer(leaf).square().sum().backward()
        self.assertTrue(same(x[0].grad, x[1].grad))
        for ours, torchs in zip(self.layer.parameters(),
                                self.original.parameters()):
            self.assertTrue(same(ours.grad, torchs.grad))

    def test_gradient_of_the_input_alone(self):
        for layer in (self.layer, self.original):
            layer.requires_grad_(False)
        self.assertIsNone(self.layer.why_eager(self.x))
        self.check("a gradient is wanted", self.x.clone().requires_grad_())

    def test_no_gradients(self):
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                self.assert_ffnorm(self.layer, self.x)

    def test_dropout(self):
        self.layer.train()
        with torch.no_grad():
            self.assertRegex(self.layer.why_eager(self.x), "dropout is active")
            outputs = [self.layer(self.x) for _ in range(2)]
        self.assertFalse(same(*outputs))

    @torch.no_grad()
    def test_other_types(self):
        for dtype in (torch.float64, torch.bfloat16):
            self.original.to(dtype)
            self.layer.to(dtype)
            self.check(str(dtype), self.x.to(dtype))
        self.layer.float()
        self.assertIsNone(self.layer.why_eager(self.x))
        self.assert_ffnorm(self.layer, self.x)

    @torch.no_grad()
    def test_autocast(self):
        # With batch_first, torch 1.13 has no right way for this itself.
        self.original = encoder_layer()
        self.layer = replaced(self.original)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.check("autocast")

    @torch.no_grad()
    def test_hooks(self):
        seen = []
        self.layer.linear1.register_forward_hook(
            lambda *_: seen.append("linear1"))
        self.assertRegex(self.layer.why_eager(self.x), "linear1 has hooks")

    @torch.no_grad()
    def test_other_parts(self):
        for name, part, reason in (
                ("linear2", nn.Identity(), "linear2 is a Identity"),
                ("activation", F.gelu, "the activation is .*gelu"),
                ("norm2", nn.Identity(), "norm2 is a Identity")):
            layer = copy.deepcopy(self.layer)
            setattr(layer, name, part)
            self.assertRegex(layer.why_eager(self.x), reason)

    @torch.no_grad()
    def test_nested(self):
        lengths = torch.tensor([[5], [3]])
        x = torch._nested_tensor_from_mask(self.x, torch.arange(5) < lengths)
        self.assertRegex(self.layer.why_eager(x), "nested")
        for ours, torchs in zip(self.layer(x).unbind(),
                                self.original(x).unbind()):
            self.assertTrue(same(ours, torchs))

    def test_parameters_without_versions(self):
        with torch.inference_mode():
            layer = replaced(self.original)
            self.assertRegex(layer.why_eager(self.x), "inference mode")
            self.assertTrue(same(layer(self.x), self.original(self.x)))


class Packing(TestCase):

    def setUp(self):
        no_grad = torch.no_grad()
        no_grad.__enter__()
        self.addCleanup(no_grad.__exit__, None, None, None)
        self.layer = replaced(encoder_layer())
        self.x = torch.randn(2, 5, D_MODEL)

    def packed(self):
        self.layer(self.x)
        return self.layer._packed._kept.packed

    def test_once(self):
        first = self.packed()
        self.assertIs(self.packed(), first)
        self.assert_ffnorm(self.layer, self.x)
        self.assertIs(self.packed(), first)

    def test_again_after_each_change(self):
        layer = self.layer
        other = encoder_layer(seed=1)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

        def step():
            with torch.enable_grad():
                layer(self.x).square().sum().backward()
            optimizer.step()

        def swap_data():
            for parameter in layer.parameters():
                parameter.data = parameter.data * 1.5

        def no_bias():
            layer.linear1.bias = None

        changes = {
            "one element": lambda: layer.linear1.weight[3, 4].add_(1.0),
            "one bias": lambda: layer.norm2.bias.fill_(0.5),
            "a step": step,
            "load_state_dict": lambda: layer.load_state_dict(
                other.state_dict()),
            "initialized": lambda: nn.init.xavier_uniform_(
                layer.linear2.weight),
            "another tensor": lambda: setattr(
                layer.norm2, "weight",
                nn.Parameter(torch.rand_like(layer.norm2.weight))),
            "other memory": swap_data,
            "another epsilon": lambda: setattr(layer.norm2, "eps", 0.01),
            "bias taken away": no_bias,
            "another order": lambda: setattr(layer, "norm_first", True)}
        for name, change in changes.items():
            with self.subTest(name):
                before = layer(self.x)
                change()
                self.assertFalse(same(layer(self.x), before))
                self.assert_ffnorm(layer, self.x)

    def test_memory_is_not_mistaken(self):
        """A tensor in memory that another one left is told apart."""
        weight = self.layer.linear1.weight
        for _ in range(20):
            weight.data = torch.randn(D_FF, D_MODEL)
            self.assert_ffnorm(self.layer, self.x)

    def test_versions_are_a_tensors_own(self):
        """Another tensor in the same memory, as often changed."""
        layer = self.layer
        layer.linear1.weight.mul_(1.5)
        before = layer(self.x)
        weight = nn.Parameter(layer.linear1.weight.data)
        while weight._version < layer.linear1.weight._version:
            weight.mul_(1.25)
        layer.linear1.weight = weight
        self.assertFalse(same(layer(self.x), before))
        self.assert_ffnorm(layer, self.x)

    def test_behind_torchs_back(self):
        before = self.layer(self.x)
        self.layer.linear1.weight.data.mul_(2.0)
        self.assertTrue(same(self.layer(self.x), before))
        self.layer.repack()
        self.assertFalse(same(self.layer(self.x), before))
        self.assert_ffnorm(self.layer, self.x)


class Replacing(TestCase):

    def test_names(self):
        model = nn.Transformer(D_MODEL, HEADS, 2, 1, D_FF)
        names = ["encoder.layers.0", "encoder.layers.1", "decoder.layers.0"]
        keys = list(model.state_dict())
        self.assertEqual(ffnorm_torch.replace_feed_forward(model), names)
        self.assertEqual(list(model.state_dict()), keys)
        self.assertIsInstance(model.encoder.layers[0],
                              nn.TransformerEncoderLayer)
        self.assertEqual(ffnorm_torch.replace_feed_forward(
            nn.Sequential(model, encoder_layer())), ["1"])

    def test_restored(self):
        model = nn.Transformer(D_MODEL, HEADS, 2, 1, D_FF,
                               batch_first=True).eval()
        before = copy.deepcopy(model.__dict__), str(model)
        nested = dict(model.encoder.__dict__)
        ffnorm_torch.replace_feed_forward(model)
        self.assertNotEqual(str(model), before[1])
        self.assertNotEqual(
            [k for k, v in nested.items() if model.encoder.__dict__[k] is not v],
            [])
        ffnorm_torch.restore_feed_forward(model)
        self.assertEqual(str(model), before[1])
        self.assertEqual(dict(model.encoder.__dict__), nested)
        self.assertIs(type(model.encoder.layers[0]),
                      nn.TransformerEncoderLayer)

    def test_refused(self):
        with self.assertRaisesRegex(ValueError, "no nn.TransformerEncoder"):
            ffnorm_torch.replace_feed_forward(nn.Linear(3, 4))
        with self.assertRaisesRegex(ValueError, "the layer: .*gelu.*, not ReLU"):
            ffnorm_torch.replace_feed_forward(encoder_layer(activation="gelu"))
        model = nn.Sequential(encoder_layer(),
                              encoder_layer(activation=torch.tanh))
        with self.assertRaisesRegex(ValueError, "^1: the activation is .*tanh"):
            ffnorm_torch.replace_feed_forward(model)
        self.assertIs(type(model[0]), nn.TransformerEncoderLayer)

    def test_derived_classes_are_left_alone(self):

        class Special(nn.TransformerEncoderLayer):
            pass

        model = nn.Sequential(Special(D_MODEL, HEADS), encoder_layer())
        self.assertEqual(ffnorm_torch.replace_feed_forward(model), ["1"])
        self.assertIs(type(model[0]), Special)

    @torch.no_grad()
    def test_copies_and_pickles(self):
        layer = replaced(encoder_layer())
        x = torch.randn(2, 5, D_MODEL)
        size = len(pickle.dumps(layer))
        y = layer(x)
        self.assertEqual(len(pickle.dumps(layer)), size)  # nothing packed
        file = io.BytesIO()
        torch.save(layer.state_dict(), file)
        file.seek(0)
        fresh = replaced(encoder_layer(seed=1))
        fresh.load_state_dict(torch.load(file))
        for copied in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)),
                       fresh):
            self.assertTrue(same(copied(x), y))
            copied.linear1.weight.mul_(2.0)
            self.assert_ffnorm(copied, x)
        self.assertTrue(same(layer(x), y))


class Tools(TestCase):

    @torch.no_grad()
    def test_traced(self):
        layer = replaced(encoder_layer(batch_first=True))
        layer(torch.randn(2, 5, D_MODEL))  # packs, or the trace would do it
        traced = torch.jit.trace(layer, torch.randn(2, 5, D_MODEL))
        self.assertNotIn("ffnorm::pack", str(traced.inlined_graph))
        self.assertIn("ffnorm::forward", str(traced.inlined_graph))
        x = torch.randn(3, 4, D_MODEL)
        self.assertTrue(same(traced(x), layer(x)))

    @unittest.skipUnless(SINCE_2_0, "torch.compile came with 2.0")
    @torch.no_grad()
    def test_compiled(self):
        layer = replaced(encoder_layer(batch_first=True))
        compiled = torch.compile(layer, backend="aot_eager")
        for rows in (5, 9):
            x = torch.randn(2, rows, D_MODEL)
            allowed = rounding_error.half(
                rounding_error.FFNORM, attention_half(layer, x),
                *parts(layer)[1], layer.norm2.eps, layer.norm_first)
            self.assertTrue(same(compiled(x), layer(x))
                            or bool(((compiled(x) - allowed.value).abs()
                                     <= 4 * allowed.error).all()))


if __name__ == "__main__":
    unittest.main()
