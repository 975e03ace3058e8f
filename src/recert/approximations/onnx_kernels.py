"""A quantised ONNX file on onnxruntime's integer kernels."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recert.errors import UnusableModel
from recert.models.onnx_model import OnnxModel, open_session


class OnnxKernels(OnnxModel):
    """Runs a quantised file where the integer kernels are: on the CPU."""

    @property
    def content(self) -> bytes:
        """The bytes of the .onnx file."""
        return self.data.cpu().numpy().tobytes()

    def forward(self, batch: Tensor) -> Tensor:
        if batch.device.type != "cpu":
            raise UnusableModel(
                f"expected a batch on the CPU, where onnxruntime's int8 kernels are, got one on {batch.device}; "
                "use int8-twin there"
            )
        return super().forward(batch.to(torch.float32))


def kernel_gap(content: bytes, rows: NDArray[np.float32]) -> tuple[float, float]:
    """How far the fused integer kernels are from the file as it is written, and the spread of the logits beside it."""
    sessions = (open_session(content, torch.get_num_threads(), fused=fused) for fused in (True, False))
    fused, plain = (session.run(None, {session.get_inputs()[0].name: rows})[0] for session in sessions)
    return float(np.abs(fused - plain).max()), float(plain.std())
