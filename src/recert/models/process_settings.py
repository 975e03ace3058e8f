"""Settings of the whole process that change how torch computes. Those that are not as usual are recorded beside votes."""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress

import torch

OPERATIONS = ("matmul", "conv", "rnn")
"""Of oneDNN, which multiplies on a CPU: it may round float32 to bf16 or TF32 in each."""
FPMATH = ("ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_DEFAULT_FPMATH_MODE")
"""Environment variables with which oneDNN does so by itself."""
ATTENTION = ("flash", "mem_efficient", "math", "cudnn")


def unusual_settings(device: torch.device) -> dict[str, str]:
    """What is set otherwise than torch comes, by name. Stores hold nothing of what is usual, so that new names refuse no old store."""
    found = {
        "default_dtype": (str(torch.get_default_dtype()).removeprefix("torch."), "float32"),
        # Under `python -O` there are no assertions, and `__debug__` is false: code does not say that it runs so.
        "python_optimizes": (str(sys.flags.optimize), "0"),
        "mkldnn": (str(torch.backends.mkldnn.enabled), "True"),
        "attention_fastpath": (str(torch.backends.mha.get_fastpath_enabled()), "True"),
        "attention_without": (" ".join(_attention_without()), ""),
        **(dict(_on_cuda()) if device.type == "cuda" else dict(_on_cpu())),
    }
    return {name: now for name, (now, usual) in found.items() if now != usual}


def onednn_precision(operation: str) -> str:
    """How oneDNN multiplies float32 in an operation: "ieee" unless something allows less."""
    precision = getattr(getattr(torch.backends.mkldnn, operation), "fp32_precision", "none")
    return "ieee" if precision == "none" else str(precision)


def flushes_denormals() -> bool:
    """Whether this thread takes numbers too small for full precision for zero. torch can set that, but does not tell."""
    return float(torch.tensor(1e-38) * 1e-2) == 0


def _on_cpu() -> Iterator[tuple[str, tuple[str, str]]]:
    products = "highest"
    with suppress(RuntimeError):  # it was set through torch's newer interface alone, which is read below
        products = torch.get_float32_matmul_precision()
    yield "float32_matmul_precision", (products, "highest")
    for operation in OPERATIONS:
        # The older interface sets the newer one as well: one record is enough, the one that older stores have.
        if operation != "matmul" or products == "highest":
            yield f"onednn_{operation}", (onednn_precision(operation), "ieee")
    yield (
        "onednn_fpmath",
        (next((os.environ[name].lower() for name in FPMATH if name in os.environ), "strict"), "strict"),
    )
    yield "flush_denormal", (str(flushes_denormals()), "False")


def _on_cuda() -> Iterator[tuple[str, tuple[str, str]]]:
    """Beside the flags of TF32 and cuDNN's choice of algorithms, which are always recorded."""
    products, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    yield "fp16_reduced_sums", (str(products.allow_fp16_reduced_precision_reduction), "True")
    yield "bf16_reduced_sums", (str(products.allow_bf16_reduced_precision_reduction), "True")
    yield "fp16_accumulation", (str(getattr(products, "allow_fp16_accumulation", False)), "False")
    yield "cudnn", (str(cudnn.enabled), "True")
    yield "deterministic", (str(cudnn.deterministic or torch.are_deterministic_algorithms_enabled()), "False")


def _attention_without() -> list[str]:
    backends = torch.backends.cuda  # these hold on a CPU, too
    return [name for name in ATTENTION if not getattr(backends, f"{name}_sdp_enabled")()]
