"""The feed-forward half of PyTorch's transformer layers by ffnorm.

    model.eval()
    ffnorm_torch.replace_feed_forward(model)
    with torch.inference_mode():
        y = model(x)

The operators below it are torch.ops.ffnorm.pack and torch.ops.ffnorm.forward.
"""
from pathlib import Path

import torch

torch.ops.load_library(str(Path(__file__).with_name("operators.so")))

from ffnorm_torch.layers import (  # noqa: E402  (the operators come first)
    DecoderLayer, EncoderLayer, replace_feed_forward, restore_feed_forward)

__all__ = ["DecoderLayer", "EncoderLayer", "replace_feed_forward",
           "restore_feed_forward"]
