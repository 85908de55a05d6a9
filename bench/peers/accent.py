"""Takes feed-forward blocks from a trained model that a PyPI package ships:
the encoder of ruaccent-predictor (nn.Transformer, Post-LN, ReLU), with the rows
that enter each block for a Russian sentence. Only 1 to 4% of its hidden units
are active.

usage: accent.py PACKAGE_FOLDER OUT.npz (needs PyTorch)"""
import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

D_MODEL, D_FF, HEADS, LAYERS = 256, 1024, 8, 4
# The opening of Pushkin's Ruslan and Ludmila, one token a letter.
TEXT = ("у лукоморья дуб зелёный, златая цепь на дубе том: и днём и ночью кот "
        "учёный всё ходит по цепи кругом; идёт направо - песнь заводит, налево "
        "- сказку говорит.")


def main(package, out):
    model = package / "ruaccent" / "model"
    vocabulary = json.loads((model / "vocab.json").read_text("utf-8"))
    state = torch.load(model / "acc_model.pt", map_location="cpu",
                       weights_only=True)
    layer = nn.TransformerEncoderLayer(D_MODEL, HEADS, D_FF, batch_first=True)
    encoder = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(D_MODEL),
                                    enable_nested_tensor=False)
    prefix = "transformer.encoder."
    encoder.load_state_dict({name[len(prefix):]: value
                             for name, value in state.items()
                             if name.startswith(prefix)})
    encoder.eval()

    entering = {}
    for number, layer in enumerate(encoder.layers):
        # A hook also keeps PyTorch from its fused path, which calls no parts.
        layer.linear1.register_forward_pre_hook(
            lambda _, args, number=number: entering.update(
                {number: args[0][0].numpy()}))
    ids = [vocabulary["<s>"],
           *(vocabulary.get(c, vocabulary["<unk>"]) for c in TEXT),
           vocabulary["</s>"]]
    with torch.no_grad():
        x = state["embed.char_embed.weight"][ids] * math.sqrt(D_MODEL)
        x = x + state["embed.pos_encoding"][0, :len(ids)]
        encoder(x[None])

    arrays = {}
    for number, layer in enumerate(encoder.layers):
        for name, value in {
                "x": entering[number],
                "w1": layer.linear1.weight.detach().numpy().T,
                "b1": layer.linear1.bias.detach().numpy(),
                "w2": layer.linear2.weight.detach().numpy().T,
                "b2": layer.linear2.bias.detach().numpy(),
                "scale": layer.norm2.weight.detach().numpy(),
                "offset": layer.norm2.bias.detach().numpy()}.items():
            arrays[f"{number}.{name}"] = value
    np.savez(out, **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
