"""`ffnorm pack`: which blocks it finds, what it says that it guessed, and that
each file has the bytes of ffnorm_pack."""
import struct
import unittest

from support import (FAILED, FLAX, OPT, TINYLM, TORCH, USAGE, Block, Case,
                     safetensors)


class Pack(Case):
    def pack(self, tensors, *arguments, metadata=None):
        self.write("model.safetensors", safetensors(tensors, metadata))
        return self.ok("pack", "model.safetensors", "-o", "out", *arguments)

    def packed_is(self, name, block, epsilon):
        self.assertEqual(self.read("out/" + name),
                         block.expected(self.folder, "pack", epsilon))

    def test_pytorch(self):
        blocks = [Block(24, 40, "out_in", seed) for seed in range(11)]
        tensors = {}
        for i, block in enumerate(blocks):
            tensors.update(block.tensors(f"encoder.layers.{i}.", TORCH[0]))
            # What else is there changes nothing.
            tensors[f"encoder.layers.{i}.norm1.weight"] = (
                "F32", (24,), bytes(96))
        said = self.pack(tensors)
        for i, block in enumerate(blocks):
            self.packed_is(f"encoder.layers.{i}.post.ffnorm", block, 1e-5)
        self.assertIn("11 blocks", said)
        self.assertIn("Post-LN, guessed: PyTorch's default", said)
        self.assertIn("1e-05, guessed: PyTorch's default", said)
        self.assertIn("(out, in), as the shapes tell", said)
        self.assertIn("ReLU, assumed", said)
        # In the order of their numbers.
        self.assertLess(said.index("layers.2."), said.index("layers.10."))
        # And no other file, hidden or not.
        self.assertEqual(len(self.files()), 11 + 2)

    def test_pytorch_decoder_takes_norm3(self):
        block = Block(8, 12, "out_in")
        names = [name.replace("norm2", "norm3") for name in TORCH[0]]
        tensors = block.tensors("layers.0.", names)
        tensors.update({f"layers.0.norm2.{part}": ("F32", (8,), bytes(32))
                        for part in ("weight", "bias")})
        self.pack(tensors, "--order", "pre")
        self.packed_is("layers.0.pre.ffnorm", block, 1e-5)

    def test_opt(self):
        """The LayerNorm after all layers tells the order."""
        encoder, decoder = (Block(16, 64, "out_in", seed) for seed in (1, 2))
        tensors = {**encoder.tensors("model.encoder.layers.0.", OPT[0]),
                   **decoder.tensors("model.decoder.layers.0.", OPT[0])}
        tensors["model.decoder.final_layer_norm.weight"] = (
            "F32", (16,), bytes(64))
        said = self.pack(tensors)
        self.packed_is("model.encoder.layers.0.post.ffnorm", encoder, 1e-5)
        self.packed_is("model.decoder.layers.0.pre.ffnorm", decoder, 1e-5)
        self.assertIn("guessed: there is model.decoder.final_layer_norm", said)
        self.assertIn("guessed: no LayerNorm after all layers", said)

    def test_config(self):
        """A config.json beside the model is believed, and what is given more."""
        block = Block(16, 64, "out_in")
        tensors = block.tensors("decoder.layers.3.", OPT[0])
        self.write("config.json", b'{"activation_function": "relu", '
                   b'"do_layer_norm_before": true, "layer_norm_eps": 1e-4}')
        said = self.pack(tensors)
        self.packed_is("decoder.layers.3.pre.ffnorm", block, 1e-4)
        for text in ("Pre-LN, says config.json", "0.0001, says config.json",
                     "ReLU, says config.json"):
            self.assertIn(text, said)
        said = self.pack(tensors, "--order", "post", "--epsilon", "1e-3")
        self.packed_is("decoder.layers.3.post.ffnorm", block, 1e-3)
        self.assertIn("Post-LN, given", said)

        self.write("config.json", b'{"activation_function": "gelu"}')
        self.bad(FAILED, "the activation is gelu", "pack", "model.safetensors",
                 "-o", "other")
        self.assertIn("ReLU, assumed", self.pack(tensors, "--no-config"))
        for content in (b"[]", b"{", b"", b'{"do_layer_norm_before": 3, '
                        b'"layer_norm_eps": "x", "activation": null}'):
            self.write("config.json", content)
            self.assertIn("Post-LN, guessed", self.pack(tensors))

    def test_flax(self):
        for separator in "/.":
            names = [name.replace("/", separator) for name in FLAX[0]]
            block = Block(12, 20, "in_out")
            prefix = separator.join(["params", "Block_0", ""])
            said = self.pack(block.tensors(prefix, names), "--order", "pre")
            self.packed_is("params.Block_0.pre.ffnorm", block, 1e-6)
            self.assertIn("Pre-LN, given", said)
            self.assertIn("1e-06, guessed: Flax's default", said)

    def test_flax_norm_is_the_last_one_around(self):
        block = Block(12, 20, "in_out")
        dense = block.tensors("Layer_0/Mlp_0/", FLAX[0][:4] + ("-", "-"))
        norms = block.tensors("Layer_0/", ("-",) * 4 + ("LayerNorm_2/scale",
                                                        "LayerNorm_2/bias"))
        tensors = {name: tensor for name, tensor in {**dense, **norms}.items()
                   if not name.endswith("-")}
        other = ("F32", (12,), bytes(48))
        tensors["Layer_0/LayerNorm_0/scale"] = other
        tensors["Layer_0/LayerNorm_0/bias"] = other
        self.pack(tensors, "--order", "post")
        self.packed_is("Layer_0.Mlp_0.post.ffnorm", block, 1e-6)

    def test_flax_order_must_be_told(self):
        block = Block(12, 20, "in_out")
        self.write("model.safetensors",
                   safetensors(block.tensors("a/", FLAX[0])))
        self.bad(USAGE, "give --order", "pack", "model.safetensors")
        said = self.ok("pack", "model.safetensors", "--list")
        self.assertIn("not known: give --order", said)

    def test_metadata(self):
        """As examples/tinylm/convert.py writes."""
        block = Block(12, 20, "in_out")
        said = self.pack(block.tensors("ffn0.", TINYLM[0]),
                         metadata={"order": "post", "epsilon": "1e-05",
                                   "heads": "4"})
        self.packed_is("ffn0.post.ffnorm", block, 1e-5)
        self.assertIn("Post-LN, says the file's metadata", said)

    def test_square(self):
        """Shapes do not tell the layout, but known names do."""
        for names, layout in (TORCH, FLAX, OPT, TINYLM):
            block = Block(16, 16, layout)
            said = self.pack(block.tensors("b.0.", names), "--order", "pre",
                             "--epsilon", "0")
            self.packed_is("b.0.pre.ffnorm", block, 0)
            self.assertIn("guessed from the names, as they are square", said)
            turned = Block(16, 16, "in_out" if layout == "out_in" else "out_in")
            self.pack(turned.tensors("b.0.", names), "--order", "pre",
                      "--epsilon", "0", "--layout", turned.layout)
            self.packed_is("b.0.pre.ffnorm", turned, 0)

    def test_shapes_go_before_names(self):
        block = Block(12, 20, "in_out")
        said = self.pack(block.tensors("l.0.", TORCH[0]))
        self.packed_is("l.0.post.ffnorm", block, 1e-5)
        self.assertIn("(in, out), as the shapes tell", said)
        self.bad(FAILED, "(12, 20) is (in, out), not (out, in)", "pack",
                 "model.safetensors", "--layout", "out_in")

    def test_given_names(self):
        names = ("up.w", "up.b", "down.w", "down.b", "n.w", "n.b")
        block = Block(12, 20, "out_in")
        tensors = block.tensors("gpt/h0.", names)
        self.pack(tensors, "--names", ",".join(names), "--order", "pre")
        self.packed_is("gpt.h0.pre.ffnorm", block, 1e-6)
        self.bad(FAILED, "there is no gpt/h0.other", "pack",
                 "model.safetensors", "--order", "pre", "--names",
                 "up.w,other,down.w,down.b,n.w,n.b")
        self.bad(FAILED, "no feed-forward block found among 6 tensors", "pack",
                 "model.safetensors")
        for names in ("", "a,b", ",b,c,d,e,f", "a,b,,d,e,f", "a,b,c,d,e,f,g"):
            if names:
                self.bad(USAGE, "--names", "pack", "model.safetensors",
                         "--names", names)

        # Without all that there may be none of.
        bare = Block(12, 12, "in_out", missing=("b1", "b2", "scale", "offset"))
        tensors = bare.tensors("", ("up", "", "down", "", "", ""))
        given = ("--names", "up,,down,,,", "--order", "post")
        self.write("model.safetensors", safetensors(tensors))
        self.bad(USAGE, "give --layout", "pack", "model.safetensors", *given)
        self.pack(tensors, *given, "--layout", "in_out")
        self.packed_is("block.post.ffnorm", bare, 1e-6)

    def test_without_biases(self):
        block = Block(12, 20, "out_in", missing=("b1", "b2", "offset"))
        self.pack(block.tensors("l.0.", TORCH[0]))
        self.packed_is("l.0.post.ffnorm", block, 1e-5)

    def test_half_types_are_widened_exactly(self):
        """Every number that F16 and BF16 have is among the weights."""
        for kind in ("F16", "BF16"):
            block = Block(256, 256, "out_in", digits=2)
            if kind == "F16":
                every = struct.unpack("<65536e",
                                      struct.pack("<65536H", *range(65536)))
            else:
                every = struct.unpack("<65536f", struct.pack(
                    "<65536I", *(bits << 16 for bits in range(65536))))
            block.values["w1"] = [0.0 if v != v else v for v in every]
            self.pack(block.tensors("l.0.", TORCH[0], kind))
            self.packed_is("l.0.post.ffnorm", block, 1e-5)

    def test_other_types_are_refused_before_anything_is_written(self):
        good, bad = Block(8, 12, "out_in"), Block(8, 12, "out_in")
        for kind, said in (("F64", "l.1.linear2.weight is F64"),
                           ("I32", "l.1.linear2.weight is I32")):
            tensors = {**good.tensors("l.0.", TORCH[0]),
                       **bad.tensors("l.1.", TORCH[0])}
            shape = tensors["l.1.linear2.weight"][1]
            size = 8 if kind == "F64" else 4
            tensors["l.1.linear2.weight"] = (kind, shape, bytes(96 * size))
            self.write("model.safetensors", safetensors(tensors))
            self.bad(FAILED, said, "pack", "model.safetensors", "-o", "out")

    def test_what_is_no_block_is_left_out(self):
        good = Block(8, 12, "out_in")
        tensors = good.tensors("l.0.", TORCH[0])
        # Without a LayerNorm, with one of another width, no pair of layers.
        tensors.update(Block(8, 12, "out_in", missing=("scale", "offset"))
                       .tensors("l.1.", TORCH[0]))
        tensors.update(good.tensors("l.2.", TORCH[0]))
        tensors["l.2.norm2.weight"] = ("F32", (9,), bytes(36))
        tensors.update(good.tensors("l.3.", TORCH[0]))
        tensors["l.3.linear2.weight"] = ("F32", (8, 13), bytes(8 * 13 * 4))
        tensors.update(good.tensors("l.4.", TORCH[0]))
        tensors["l.4.linear1.weight"] = ("F32", (96,), bytes(96 * 4))
        said = self.pack(tensors)
        self.assertIn("1 block\n", said)
        self.packed_is("l.0.post.ffnorm", good, 1e-5)
        for text in ("l.1: no LayerNorm", "l.2: biases or LayerNorm do not fit",
                     "l.3: l.3.linear1.weight (12, 8)", "l.4: l.4.linear1"):
            self.assertIn("left out    " + text, said)
        # With nothing left, the first of these is the error.
        del tensors["l.0.norm2.weight"]
        self.write("model.safetensors", safetensors(tensors))
        self.bad(FAILED, "no feed-forward block found (l.0: no LayerNorm", "pack",
                 "model.safetensors")

    def test_list_writes_nothing(self):
        block = Block(8, 12, "out_in")
        self.write("model.safetensors",
                   safetensors(block.tensors("l.0.", TORCH[0])))
        said = self.ok("pack", "model.safetensors", "--list", "-o", "out")
        self.assertRegex(said, r"l\.0 +8 +12 +Post-LN +linear1\.weight")
        self.assertEqual(self.files(), ["model.safetensors"])

    def test_names_stay_in_the_folder(self):
        """Whatever tensors are called: nor do two become one file."""
        block, other = Block(8, 12, "in_out", 1), Block(8, 12, "in_out", 2)
        self.pack({**block.tensors("../../e t c/\x1b[31m\n.", TINYLM[0]),
                   **other.tensors("../../e_t_c/\x1b[31m\n.", TINYLM[0])},
                  "--order", "pre")
        files = [name for name in self.files() if name.endswith(".ffnorm")]
        stem = "out/_.....e_t_c.__31m_"
        self.assertEqual(files, [stem + "-2.pre.ffnorm", stem + ".pre.ffnorm"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
