"""How a network is run: its floating-point type, TF32 or not, memory format, compiled or not.

All of these can change the last bits of a logit, so they belong to the identity of what is certified.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from recert.errors import UnusableModel
from recert.models.permanent import copied

log = logging.getLogger(__name__)

PRECISIONS = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
"""Ways to compute that can be chosen, and the type of weights and activations in each."""


@dataclass(frozen=True)
class Inference:
    """Choices that are the user's. `precision` None: the model's own type, TF32 as torch is set."""

    precision: str | None = None
    channels_last: bool = True
    compiled: bool = False

    def __str__(self) -> str:
        chosen = [
            self.precision,
            "channels-last" if self.channels_last else None,
            "compiled" if self.compiled else None,
        ]
        return ", ".join(word for word in chosen if word) or "as it is"


class PreparedModel(nn.Module):
    """A network that is run as chosen. Made by `prepare`; the network itself is at `network`."""

    not_identity = ("batch_sizes", "seconds_to_compile", "_compiled")

    def __init__(self, network: nn.Module, inference: Inference) -> None:
        super().__init__()
        self.network = network
        self.inference = inference
        self.batch_sizes: dict[tuple[int, ...], int] = {}
        """The fastest batch for each shape of input, once it is found."""
        self.seconds_to_compile: float | None = None
        """What the first call took, once it is made: it waits for the compiler."""
        self._compiled: Callable[[Tensor], Any] | None = None
        self.training = getattr(
            network, "training", False
        )  # the network's own: sampling refuses a layer that was left in training mode

    def forward(self, batch: Tensor) -> Any:
        with self.torch_flags():
            if not self.inference.compiled:
                return self.network(batch)
            return self._first_call(batch) if self._compiled is None else self._compiled(batch)

    def uncompiled(self, batch: Tensor) -> Any:
        """The same answer but for rounding, with no wait for a compiler: for timing batch sizes."""
        with self.torch_flags():
            return self.network(batch)

    @contextmanager
    def torch_flags(self) -> Iterator[None]:
        """torch's flags as chosen while the network runs, and as they were afterwards.

        A compiled network lets cuDNN time its algorithms for the one shape there is, which makes half precision up to 1.6
        times as fast. Another process may find another algorithm fastest, and so round otherwise.
        """
        flags = torch.backends.cudnn.benchmark, *tf32_flags()
        benchmark, convolutions, products = flags
        if self.inference.precision in ("fp32", "tf32"):
            convolutions = products = self.inference.precision == "tf32"
        _set_flags(benchmark or self.inference.compiled, convolutions, products)
        try:
            yield
        finally:
            _set_flags(*flags)

    def extra_repr(self) -> str:
        return str(self.inference)

    def to_compile(self) -> "PreparedModel":
        """The same network, compiled at its first call."""
        return PreparedModel(self.network, replace(self.inference, compiled=True))

    def _first_call(self, batch: Tensor) -> Any:
        """Compile, and say how long it took."""
        started = time.perf_counter()
        self._compiled = torch.compile(self.network, dynamic=False)
        answer = self._compiled(batch)
        if batch.is_cuda:
            torch.cuda.synchronize(batch.device)
        self.seconds_to_compile = time.perf_counter() - started
        log.info("compiled in %.1f s", self.seconds_to_compile)
        return answer

    def __getstate__(self) -> dict[str, Any]:
        """Without compiled code, which cannot be sent or copied: it is made anew where it is needed."""
        return {**self.__dict__, "_compiled": None}


def prepare(
    model: nn.Module, *, precision: str | None = None, channels_last: bool = True, compile: bool = False
) -> PreparedModel:
    """A copy of a network that computes as chosen, to be certified in place of it.

    `precision`: "fp32" (strict: no TF32), "tf32" (float32 with TF32 convolutions and products), "bf16" or "fp16" (weights
    and activations); as it is if not given. `channels_last` is the faster memory format for convolutions nearly everywhere.
    `compile` takes seconds to a minute, and pays for long runs; batches have one shape, so it happens once.
    """
    if not isinstance(model, nn.Module) or isinstance(model, PreparedModel):
        raise ValueError(f"expected a torch module that is not prepared yet, got {type(model).__name__}")
    if precision is not None and precision not in PRECISIONS:
        raise ValueError(f"expected precision to be one of {', '.join(PRECISIONS)}, got {precision!r}")
    if hasattr(model, "session"):
        raise ValueError("expected a torch network, got one that runs in onnxruntime, which computes as its file says")
    if precision == "tf32" and not any(t.is_cuda for t in (*model.parameters(), *model.buffers())):
        raise ValueError("expected a network on a CUDA device with precision='tf32', got one on the CPU; use 'fp32'")
    network = copied(model)  # the caller's model stays as it is
    if precision is not None:
        network = network.to(PRECISIONS[precision])
    if channels_last:
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return PreparedModel(network, Inference(precision, channels_last, compile))


def tf32_flags() -> tuple[bool, bool]:
    """Whether torch uses TF32 in convolutions and in products."""
    try:
        return torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    except RuntimeError as error:
        raise UnusableModel(
            "torch's TF32 settings were made through a mixture of its old and new interfaces and cannot be read; set them by "
            "torch.backends.cudnn.allow_tf32 = ... and torch.backends.cuda.matmul.allow_tf32 = ... alone"
        ) from error


def _set_flags(benchmark: bool, convolutions: bool, products: bool) -> None:
    torch.backends.cudnn.benchmark = benchmark
    torch.backends.cudnn.allow_tf32 = convolutions
    torch.backends.cuda.matmul.allow_tf32 = products
