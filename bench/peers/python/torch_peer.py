"""PyTorch: nn.LayerNorm and nn.Linear as they are (eager), and, when asked for
with FFNORM_PEERS_TORCH_COMPILE=1, compiled with frozen weights, which takes
many seconds for each point."""
import importlib
import os

import numpy as np
import torch
from torch import nn

from worker import Library


class Block(nn.Module):
    def __init__(self, weights, order):
        super().__init__()
        self.order = order
        self.norm = nn.LayerNorm(weights.d_model, eps=weights.epsilon)
        self.linear1 = nn.Linear(weights.d_model, weights.d_ff)
        self.linear2 = nn.Linear(weights.d_ff, weights.d_model)
        with torch.no_grad():
            for parameter, value in (
                    (self.norm.weight, weights.scale),
                    (self.norm.bias, weights.offset),
                    (self.linear1.weight, weights.w1.T),
                    (self.linear1.bias, weights.b1),
                    (self.linear2.weight, weights.w2.T),
                    (self.linear2.bias, weights.b2)):
                parameter.copy_(torch.from_numpy(np.array(value)))

    def ffn(self, z):
        return self.linear2(torch.relu(self.linear1(z)))

    def forward(self, x):
        if self.order == "norm":
            return self.norm(x)
        if self.order == "pre":
            return x + self.ffn(self.norm(x))
        return self.norm(x + self.ffn(x))


def create(threads):
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    blocks = {}  # {(weights, order): module}, one at a time

    def module(weights, order):
        key = (weights, order)
        if key not in blocks:
            blocks.clear()
            blocks[key] = Block(weights, order).eval()
        return blocks[key]

    def bind(function, x, guard):
        source = torch.from_numpy(np.array(x))
        kept = {}

        def run():
            with guard():
                kept["y"] = function(source)

        return run, lambda: kept["y"].numpy()

    def eager(weights, order, rows, x):
        del rows
        return bind(module(weights, order), x, torch.inference_mode)

    def compiled(weights, order, rows, x):
        del rows
        torch._dynamo.reset()
        torch._inductor.config.freezing = True
        return bind(torch.compile(module(weights, order), dynamic=False), x,
                    torch.no_grad)

    variants = {"eager": eager}
    if os.environ.get("FFNORM_PEERS_TORCH_COMPILE") == "1":
        for name in ("torch._dynamo", "torch._inductor.config"):
            importlib.import_module(name)
        variants["compiled"] = compiled
    return Library("torch", torch.__version__,
                   f"code for {torch.backends.cpu.get_cpu_capability()}",
                   variants)
