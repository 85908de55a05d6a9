"""Writes one of the trained models as a safetensors file.

    convert.py MODEL_FOLDER FILE.safetensors

MODEL_FOLDER holds Flax's parameters as .npy files, Dense kernels (in, out), and
config.json. Needs numpy and safetensors.
"""
import json
import pathlib
import sys

import numpy as np
from safetensors.numpy import save_file

ATTENTION = ("ln_gamma", "ln_beta", "wq", "bq", "wk", "bk", "wv", "bv", "wo",
             "bo")
FEED_FORWARD = ("gamma", "beta", "w1", "b1", "w2", "b2")


def main():
    folder, file = pathlib.Path(sys.argv[1]), sys.argv[2]
    config = json.loads((folder / "config.json").read_text())
    names = ["tok_emb", "pos_emb", "head_w", "head_b"]
    if config["kind"] == "pre":  # Post-LN ends in a LayerNorm already
        names += ["final_ln_gamma", "final_ln_beta"]
    for i in range(config["layers"]):
        names += [f"attn{i}/{name}" for name in ATTENTION]
        names += [f"ffn{i}/{name}" for name in FEED_FORWARD]
    tensors = {name.replace("/", "."): np.load(folder / f"{name}.npy")
               for name in names}
    # Sizes follow from the shapes; this does not.
    save_file(tensors, file, metadata={
        "order": config["kind"],
        "heads": str(config["heads"]),
        "epsilon": repr(config["eps"]),
        "characters": "".join(config["vocab"]),
    })


main()
