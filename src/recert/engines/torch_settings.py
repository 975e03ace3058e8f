"""Process-wide settings of torch that change the last bits of a logit: a worker takes over those of the driver."""

from dataclasses import dataclass
from typing import Self

import torch

from recert.models.inference import tf32_flags
from recert.models.process_settings import OPERATIONS, flushes_denormals, onednn_precision


@dataclass(frozen=True)
class TorchSettings:
    """Settings as they are in one process, to be applied in another."""

    tf32_convolutions: bool
    tf32_matmuls: bool
    cudnn_benchmark: bool
    deterministic: bool
    onednn: tuple[str, ...]
    """How float32 is multiplied on a CPU, in each of `OPERATIONS`."""
    flush_denormal: bool

    @classmethod
    def of_this_process(cls) -> Self:
        return cls(
            *tf32_flags(),
            torch.backends.cudnn.benchmark,
            torch.are_deterministic_algorithms_enabled(),
            tuple(map(onednn_precision, OPERATIONS)),
            flushes_denormals(),
        )

    def apply(self) -> None:
        torch.backends.cuda.matmul.allow_tf32 = self.tf32_matmuls
        torch.backends.cudnn.allow_tf32 = self.tf32_convolutions
        torch.backends.cudnn.benchmark = self.cudnn_benchmark
        torch.use_deterministic_algorithms(self.deterministic)
        for operation, precision in zip(OPERATIONS, self.onednn, strict=True):
            if onednn_precision(operation) != precision:
                getattr(torch.backends.mkldnn, operation).fp32_precision = precision
        if flushes_denormals() != self.flush_denormal:
            torch.set_flush_denormal(self.flush_denormal)
