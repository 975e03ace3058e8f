"""An ONNX file run by onnxruntime, as a torch module."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from recert.approximations.optional import needed
from recert.errors import UnusableModel


class OnnxKernels(nn.Module):
    """Runs a quantised file on onnxruntime's integer kernels. The file is a buffer: it is what identifies the model."""

    file: Tensor

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.register_buffer("file", torch.frombuffer(bytearray(content), dtype=torch.uint8))
        self._session: Any = None

    def forward(self, batch: Tensor) -> Tensor:
        if batch.device.type != "cpu":
            raise UnusableModel(
                f"expected a batch on the CPU, where onnxruntime's int8 kernels are, got one on {batch.device}; "
                "use int8-twin there"
            )
        if self._session is None:
            self._session = _session(self.content, fused=True)
        values = np.ascontiguousarray(batch.detach().to(torch.float32).numpy())
        return torch.from_numpy(_answer(self._session, values))

    @property
    def content(self) -> bytes:
        """The bytes of the .onnx file."""
        return self.file.cpu().numpy().tobytes()

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles leave the session behind and open their own."""
        return {**self.__dict__, "_session": None}


def kernel_gap(content: bytes, rows: NDArray[np.float32]) -> tuple[float, float]:
    """How far the fused integer kernels are from the file as it is written, and the spread of the logits beside it."""
    fused, plain = (_answer(_session(content, fused=fused), rows) for fused in (True, False))
    return float(np.abs(fused - plain).max()), float(plain.std())


def _answer(session: Any, rows: NDArray[np.float32]) -> NDArray[np.float32]:
    answer: NDArray[np.float32] = session.run(None, {session.get_inputs()[0].name: rows})[0]
    return answer


def _session(content: bytes, *, fused: bool) -> Any:
    runtime = needed("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # the cores are also making noise
    options.log_severity_level = 3
    if not fused:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
