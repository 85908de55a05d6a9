"""A real model on a real sentence, with figures: the nn.Transformer that the
PyPI package ruaccent-predictor ships (Post-LN, ReLU, 4 encoder and 4 decoder
layers), which puts the accents on Russian words. And, as that one is Post-LN,
an encoder of the same sizes with norm_first=True and random weights.

Fails when ffnorm is more than 4 times as far from float64 as eager is, or when
the model writes other accents with it.
"""
import copy
import importlib.util
import json
import math
import re
import statistics
import sys
import time
from pathlib import Path

import torch
from torch import nn

import ffnorm_torch

D_MODEL, D_FF, HEADS, LAYERS = 256, 1024, 8, 4
# The opening of Pushkin's Ruslan and Ludmila, one token a letter.
TEXT = ("у лукоморья дуб зелёный, златая цепь на дубе том: и днём и ночью кот "
        "учёный всё ходит по цепи кругом; идёт направо - песнь заводит, налево "
        "- сказку говорит.")


class Accentor(nn.Module):
    """Letters in, letters with accents out."""

    def __init__(self, folder):
        super().__init__()
        self.vocabulary = json.loads(
            (folder / "vocab.json").read_text("utf-8"))
        state = torch.load(folder / "acc_model.pt", map_location="cpu",
                           weights_only=True)
        self.letters = state["embed.char_embed.weight"]
        self.places = state["embed.pos_encoding"]
        self.transformer = nn.Transformer(D_MODEL, HEADS, LAYERS, LAYERS, D_FF,
                                          batch_first=True)
        self.output = nn.Linear(D_MODEL, len(self.vocabulary))
        for name, part in (("transformer.", self.transformer),
                           ("output_proj.", self.output)):
            part.load_state_dict({key[len(name):]: value
                                  for key, value in state.items()
                                  if key.startswith(name)})
        self.eval()

    def embed(self, text):
        unknown = self.vocabulary["<unk>"]
        return self.embed_ids(torch.tensor([[
            self.vocabulary["<s>"],
            *(self.vocabulary.get(c, unknown) for c in text),
            self.vocabulary["</s>"]]]))

    def embed_ids(self, ids):
        return (self.letters[ids] * math.sqrt(D_MODEL)
                + self.places[:, :ids.shape[1]])

    def accented(self, text):
        """The likeliest letter each time."""
        memory = self.transformer.encoder(self.embed(text))
        names = {number: name for name, number in self.vocabulary.items()}
        written = torch.tensor([[self.vocabulary["<s>"]]])
        for _ in range(2 * len(text)):
            rows = written.shape[1]
            mask = torch.full((rows, rows), -math.inf).triu(1)
            y = self.transformer.decoder(self.embed_ids(written), memory, mask)
            letter = self.output(y[:, -1]).argmax(-1, keepdim=True)
            if names[int(letter)] == "</s>":
                break
            written = torch.cat([written, letter], 1)
        return "".join(names[int(i)] for i in written[0, 1:])


def random_pre_ln():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(D_MODEL, HEADS, D_FF, batch_first=True,
                                       norm_first=True)
    encoder = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(D_MODEL),
                                    enable_nested_tensor=False)
    for parameter in encoder.parameters():  # the stack's layers were copies
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
    return encoder.eval()


def attention_half(layer, x):
    if layer.norm_first:
        return x + layer._sa_block(layer.norm1(x), None, None)
    return layer.norm1(x + layer._sa_block(x, None, None))


def eager_half(layer, x):
    if layer.norm_first:
        return x + layer._ff_block(layer.norm2(x))
    return layer.norm2(x + layer._ff_block(x))


def hidden(layer, x):
    return layer.linear1(layer.norm2(x) if layer.norm_first else x).relu()


def milliseconds(*calls, seconds=0.5):
    """The median time of each call; they take turns, so that what else the
    machine does hits all of them."""
    times = [[] for _ in calls]
    end = time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end or len(times[0]) < 5:
        for call, taken in zip(calls, times):
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
    return [1e3 * statistics.median(taken) for taken in times]


def half_times(encoder, inputs):
    """Milliseconds of one feed-forward half, eager and ffnorm."""
    layers = list(zip(encoder.layers, inputs))
    return [ms / len(layers) for ms in milliseconds(
        lambda: [eager_half(layer, x) for layer, x in layers],
        lambda: [layer.feed_forward(x) for layer, x in layers])]


def compare(name, eager, exact, ours, x):
    """Prints what there is to say of an encoder; its short form, and whether
    ffnorm is as right as eager. `exact` is the float64 copy."""
    inputs, rows = [], x
    for layer in eager.layers:
        inputs.append(attention_half(layer, rows))
        rows = eager_half(layer, inputs[-1])
    units = [hidden(layer, y) for layer, y in zip(eager.layers, inputs)]
    active = (sum(int(u.count_nonzero()) for u in units)
              / sum(u.numel() for u in units))
    truth = exact(x.double())
    eager_error, our_error = ((encoder(x) - truth).abs().max().item()
                              for encoder in (eager, ours))
    before, after = half_times(ours, inputs)
    one_before, one_after = half_times(ours, [y[:, :1] for y in inputs])
    all_before, all_after = milliseconds(lambda: eager(x), lambda: ours(x))
    print(f"""{name}: {x.shape[1]} rows, {active:.1%} of the hidden units active
  largest error of the encoder's output (values up to {truth.abs().max():.2f}):\
 eager {eager_error:.1e}, ffnorm {our_error:.1e}
  ms, eager -> ffnorm: a feed-forward half {before:.2f} -> {after:.2f}, of one\
 row {one_before:.3f} -> {one_after:.3f}; the encoder {all_before:.1f} ->\
 {all_after:.1f}""")
    return (f"{name} {active:.0%} active, error {our_error:.1e} (eager "
            f"{eager_error:.1e}), half {before:.2f} -> {after:.2f} ms",
            our_error <= 4 * eager_error)


def blas():
    """What eager's matmuls are done by."""
    name = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show()).group(1)
    if name == "generic":  # whichever libblas.so the system has
        maps = Path("/proc/self/maps").read_text("utf-8")
        name = "OpenBLAS" if "openblas" in maps else "a plain libblas"
    return name


def main():
    torch.set_num_threads(1)
    package = importlib.util.find_spec("ruaccent").submodule_search_locations[0]
    accentor = Accentor(Path(package) / "model")
    models = {"accents": accentor.transformer.encoder,
              "random Pre-LN": random_pre_ln()}
    exact = {name: copy.deepcopy(m).double() for name, m in models.items()}
    replaced = copy.deepcopy(accentor)
    ours = {"accents": replaced.transformer.encoder,
            "random Pre-LN": copy.deepcopy(models["random Pre-LN"])}
    ffnorm_torch.replace_feed_forward(replaced)
    ffnorm_torch.replace_feed_forward(ours["random Pre-LN"])

    print(f"torch {torch.__version__}, {blas()}, one thread")
    said, right = [], True
    with torch.inference_mode():
        x = accentor.embed(TEXT)
        for name, eager in models.items():
            line, good = compare(name, eager, exact[name], ours[name], x)
            said.append(line)
            right = right and good
        sentence = TEXT.split(":")[0]
        texts = [m.accented(sentence) for m in (accentor, replaced)]
    print(f"accents by eager:  {texts[0]}\naccents by ffnorm: {texts[1]}")
    print(f"torch {torch.__version__}; " + "; ".join(said))
    return 0 if right and texts[0] == texts[1] else 1


if __name__ == "__main__":
    sys.exit(main())
