"""torch's encoder and decoder layers with ffnorm for the feed-forward half.

Layers are replaced by giving them another class: parameters, their names and
everything else stay. Attention is torch's own.
"""
import inspect

import torch
from torch import nn
from torch.nn import functional as F

from ffnorm_torch.packed import PackedWeights

# Since 2.0 torch also passes on whether a mask is causal.
_TAKES_CAUSAL = "is_causal" in inspect.signature(
    nn.TransformerEncoderLayer.forward).parameters
# Since 2.4 one function tells for each device whether autocast is on.
_NAMES_DEVICE = hasattr(torch, "get_autocast_dtype")



def _autocast_is_on():
    if _NAMES_DEVICE:
        return torch.is_autocast_enabled("cpu")
    return torch.is_autocast_cpu_enabled()


def _causal(*flags):
    return flags if _TAKES_CAUSAL else ()


class _FeedForward:
    """What both kinds of layer share. The names of their parts differ."""

    _norm_name = _dropout_name = ""

    def feed_forward(self, x):
        """x + FFN(norm(x)) or norm(x + FFN(x)), by ffnorm."""
        norm = getattr(self, self._norm_name)
        packed = self._packed.get(self._parameters_in_order(), norm.eps)
        return torch.ops.ffnorm.forward(x, packed, self.norm_first)

    def repack(self):
        """To be called when parameters were written through .data or NumPy."""
        self._packed.clear()

    @classmethod
    def unsupported(cls, layer):
        """Why ffnorm cannot serve a layer as it is, or None."""
        for name, kind in (("linear1", nn.Linear), ("linear2", nn.Linear),
                           (cls._norm_name, nn.LayerNorm)):
            part = getattr(layer, name)
            if type(part) is not kind:
                return f"{name} is a {type(part).__name__}"
            if part._forward_hooks or part._forward_pre_hooks:
                return f"{name} has hooks"
        if not (layer.activation in (F.relu, torch.relu)
                or isinstance(layer.activation, nn.ReLU)):
            return f"the activation is {layer.activation}, not ReLU"
        return None

    def why_eager(self, x):
        """Why this input takes torch's own way, or None if it is ffnorm's."""
        reason = self.unsupported(self)
        if reason is not None:
            return reason
        for name in ("dropout", self._dropout_name):
            part = getattr(self, name)
            if part.training and part.p > 0:
                return f"{name} is active"
        if _autocast_is_on():
            return "autocast is on"
        grad = torch.is_grad_enabled()
        for tensor in (x, *self._parameters_in_order()):
            if tensor is None:
                continue
            if type(tensor) not in (torch.Tensor, nn.Parameter):
                return f"a tensor is a {type(tensor).__name__}"
            if tensor.is_nested:
                return "a tensor is nested"
            if tensor.dtype != torch.float32 or not tensor.is_cpu:
                return f"a tensor is {tensor.dtype} on {tensor.device}"
            if grad and tensor.requires_grad:
                return "a gradient is wanted"
            if tensor is not x and tensor.is_inference():
                return ("a parameter was made in inference mode, and counts no "
                        "versions")
        return None

    def _parameters_in_order(self):
        linear1, linear2 = self.linear1, self.linear2
        norm = getattr(self, self._norm_name)
        return (linear1.weight, linear1.bias, linear2.weight, linear2.bias,
                norm.weight, norm.bias)


class EncoderLayer(_FeedForward, nn.TransformerEncoderLayer):
    """Goes past torch's fused path too, which would call none of its parts."""

    _norm_name, _dropout_name = "norm2", "dropout2"

    def forward(self, src, src_mask=None, src_key_padding_mask=None,
                is_causal=False):
        rest = src_mask, src_key_padding_mask, *_causal(is_causal)
        if self.why_eager(src) is not None:
            return super().forward(src, *rest)
        if self.norm_first:
            x = src + self._sa_block(self.norm1(src), *rest)
        else:
            x = self.norm1(src + self._sa_block(src, *rest))
        return self.feed_forward(x)


class DecoderLayer(_FeedForward, nn.TransformerDecoderLayer):

    _norm_name, _dropout_name = "norm3", "dropout3"

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None,
                tgt_key_padding_mask=None, memory_key_padding_mask=None,
                tgt_is_causal=False, memory_is_causal=False):
        if self.why_eager(tgt) is not None:
            return super().forward(
                tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask,
                memory_key_padding_mask,
                *_causal(tgt_is_causal, memory_is_causal))
        to_self = tgt_mask, tgt_key_padding_mask, *_causal(tgt_is_causal)
        to_memory = (memory, memory_mask, memory_key_padding_mask,
                     *_causal(memory_is_causal))
        x = tgt
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), *to_self)
            x = x + self._mha_block(self.norm2(x), *to_memory)
        else:
            x = self.norm1(x + self._sa_block(x, *to_self))
            x = self.norm2(x + self._mha_block(x, *to_memory))
        return self.feed_forward(x)


_REPLACEMENTS = {nn.TransformerEncoderLayer: EncoderLayer,
                 nn.TransformerDecoderLayer: DecoderLayer}
_ORIGINALS = {ours: torchs for torchs, ours in _REPLACEMENTS.items()}


def replace_feed_forward(model):
    """Lets ffnorm compute the feed-forward half of every
    nn.TransformerEncoderLayer and nn.TransformerDecoderLayer in `model`.

    Returns their names. ValueError, and nothing changed, when there is none or
    when one of them is not to be served (its activation is GELU, say). Classes
    derived from torch's are left alone, as their forward may be another.

    Padded batches are no longer turned into nested tensors, which ffnorm does
    not take: rows that are padding then hold numbers instead of zeros.
    """
    found = {name: module for name, module in model.named_modules()
             if type(module) in _REPLACEMENTS}
    if not found:
        raise ValueError("no nn.TransformerEncoderLayer or "
                         "nn.TransformerDecoderLayer in the model")
    for name, layer in found.items():
        reason = _REPLACEMENTS[type(layer)].unsupported(layer)
        if reason is not None:
            raise ValueError(f"{name or 'the layer'}: {reason}")
    for layer in found.values():
        layer.__class__ = _REPLACEMENTS[type(layer)]
        layer._packed = PackedWeights()
    for encoder in _encoders(model, EncoderLayer):
        if not hasattr(encoder, "_nested_before"):
            encoder._nested_before = getattr(encoder, _NESTED)
            setattr(encoder, _NESTED, False)
    return list(found)


def restore_feed_forward(model):
    """Takes replace_feed_forward back."""
    for layer in model.modules():
        if type(layer) in _ORIGINALS:
            layer.__class__ = _ORIGINALS[type(layer)]
            del layer._packed
    for encoder in _encoders(model, nn.TransformerEncoderLayer):
        if hasattr(encoder, "_nested_before"):
            setattr(encoder, _NESTED, encoder._nested_before)
            del encoder._nested_before


# The attribute of nn.TransformerEncoder that decides on nested tensors.
_NESTED = "use_nested_tensor" if _TAKES_CAUSAL else "enable_nested_tensor"


def _encoders(model, kind):
    """Stacks that have a layer of exactly this kind."""
    return [module for module in model.modules()
            if isinstance(module, nn.TransformerEncoder)
            and any(type(layer) is kind for layer in module.layers)]
