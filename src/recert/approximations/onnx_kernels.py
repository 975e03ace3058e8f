"""An ONNX file run by onnxruntime, as a torch module."""

from typing import Any

import numpy as np
import torch
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
            self._session = _session(self.content)
        values = np.ascontiguousarray(batch.detach().to(torch.float32).numpy())
        answer = self._session.run(None, {self._session.get_inputs()[0].name: values})[0]
        return torch.from_numpy(answer)

    @property
    def content(self) -> bytes:
        """The bytes of the .onnx file."""
        return self.file.cpu().numpy().tobytes()

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles leave the session behind and open their own."""
        return {**self.__dict__, "_session": None}


def _session(content: bytes) -> Any:
    runtime = needed("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # the cores are also making noise
    options.log_severity_level = 3
    return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
