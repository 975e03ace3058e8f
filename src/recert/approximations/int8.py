"""8-bit integers: static scales, per-channel weights, on int8 kernels or, as a twin, in float32.

Weights are int8 with one scale per output channel, activations uint8 with one scale per tensor, measured once as the
range over noisy training inputs; biases are int32. Of onnxruntime's ways to choose the range (extremes, a percentile,
entropy) none was better on a ResNet-20 (2 or 3 flips of 10,000 with each), and the extremes are the simplest. Logits stay in
float32: on 256 levels, 66 of 20,000 tied and 37 flipped; in float32 none tied and 22 flipped.

x86 processors without VNNI add pairs of 8-bit products in 16 bits, which can saturate: there, the kernels and the twin
may differ more than the rounding of a value.
"""

import warnings

import torch
from torch import nn
from torch.nn.modules.conv import _ConvNd

from recert.approximations.context import Context
from recert.approximations.onnx_file import describe
from recert.approximations.onnx_kernels import OnnxKernels, kernel_gap
from recert.approximations.onnx_quantisation import quantised_file
from recert.approximations.twin.module import Twin
from recert.models.onnx_model import import_onnx

CHECKED_ROWS = 8


def int8(model: nn.Module, argument: str | None, context: Context) -> nn.Module:
    """Static int8, computed by onnxruntime's integer kernels on the CPU."""
    file = _file(model, context)
    context.description = (
        f"int8 weights and uint8 activations, integer kernels of onnxruntime on the CPU: {context.facts['quantised']}; "
        "logits in float32"
    )
    context.facts["kernels"] = "onnxruntime int8"
    context.facts["onnxruntime"] = import_onnx("onnxruntime").__version__
    context.facts["kernels_off_by"] = _kernels_off_by(file, context)
    return OnnxKernels(file)


def int8_twin(model: nn.Module, argument: str | None, context: Context) -> nn.Module:
    """The integers of `int8`, same file, same scales and zero points, held and multiplied in float32 on any device."""
    tensor = next((t for t in (*model.parameters(), *model.buffers())), torch.empty(0))
    device = tensor.device  # where it was: quantising works on a copy on the CPU
    file = _file(model, context)
    context.description = f"twin of int8: the same integer weights, activations and scales, computed in float32: {context.facts['quantised']}"
    context.facts["kernels"] = "fake-quant twin"
    return Twin(file).to(device)


def _kernels_off_by(file: bytes, context: Context) -> str:
    """Fused kernels may round a value otherwise than the file says. A larger difference is a fault of the fused kernel."""
    rows = context.required_calibration().noisy(0, CHECKED_ROWS)
    gap, spread = kernel_gap(file, rows)
    if gap > spread:
        warnings.warn(
            f"onnxruntime's fused int8 kernels differ from the quantised file by {gap:.3g}, more than the logits' own "
            f"spread of {spread:.3g}: expect many flips; compare with int8-twin, which follows the file",
            stacklevel=4,
        )
    return f"{gap:.3g} where logits spread {spread:.3g}, on {len(rows)} calibration inputs"


def _file(model: nn.Module, context: Context) -> bytes:
    calibration = context.required_calibration()
    file = quantised_file(model.cpu().float(), calibration, _limited_to(model, context))
    context.facts.update(calibration.facts())
    context.facts.update(describe(file))
    return file


def _limited_to(model: nn.Module, context: Context) -> frozenset[str] | None:
    """The names of the layers that are meant; None if all are."""
    if context.layers is None:
        return None
    return context.chosen([name for name, layer in model.named_modules() if isinstance(layer, _ConvNd | nn.Linear)])
