"""An ONNX graph as a torch module: its answers come from onnxruntime on the CPU."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from recert.errors import UnusableModel
from recert.extras import import_extra

# How a graph says that a tensor is in another file: the key "location" in its wire format.
_EXTERNAL = b"\n\x08location\x12"
_INPUT_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}


class OnnxModel(nn.Module):
    """Runs the graph in `data` (the bytes of an .onnx file) on batches of any size.

    The bytes are a buffer, so the digest of the weights identifies graph and weights together. The session is made
    from them on first use and left out of copies and pickles, which makes the module safe to copy and to send.
    """

    not_identity = ("threads", "_session")

    def __init__(self, data: bytes, threads: int | None = None) -> None:
        super().__init__()
        # onnxruntime would look for such weights in the current directory, and no digest would cover them.
        if _EXTERNAL in data:
            raise UnusableModel(
                "expected a graph with its weights inside, got one that keeps them in another file; load it from its "
                ".onnx file, or export it with external_data=False"
            )
        self.data: Tensor
        self.register_buffer("data", torch.from_numpy(np.frombuffer(data, np.uint8).copy()))
        self.threads = threads
        self._session: Any = None
        inputs, outputs = self.session.get_inputs(), self.session.get_outputs()
        if len(inputs) != 1 or inputs[0].type not in _INPUT_TYPES:
            described = ", ".join(f"{each.name}: {each.type}" for each in inputs)
            raise UnusableModel(
                f"expected an ONNX graph with one floating-point input, got ({described}); export it with images alone"
            )
        self._input_name, self._input_type = inputs[0].name, _INPUT_TYPES[inputs[0].type]
        self._output_name = outputs[0].name
        batch, *shape = inputs[0].shape or [None]
        self.fixed_batch = batch if isinstance(batch, int) else None
        self.input_shape = _known(shape)
        logits = _known((outputs[0].shape or [])[1:])
        self.classes = logits[0] if logits is not None and len(logits) == 1 else None

    @property
    def session(self) -> Any:
        """The onnxruntime session, made when it is first needed."""
        if self._session is None:
            self._session = open_session(self.data.cpu().numpy().tobytes(), self.threads or torch.get_num_threads())
        return self._session

    def forward(self, batch: Tensor) -> Tensor:
        rows = batch.detach().cpu().numpy().astype(self._input_type, copy=False)
        if self.fixed_batch is None:
            return torch.from_numpy(self._run(rows)).to(batch.device)
        answers = [self._run_padded(part) for part in _split(rows, self.fixed_batch)]
        return torch.from_numpy(np.concatenate(answers)).to(batch.device)

    def _run(self, rows: Any) -> Any:
        try:
            return self.session.run([self._output_name], {self._input_name: rows})[0]
        except Exception as error:  # onnxruntime has a class for every cause and no common one
            wanted = self.session.get_inputs()[0].shape
            raise UnusableModel(
                f"expected a batch of shape {wanted}, got {rows.shape}, on which the graph fails ({_first_line(error)})"
            ) from None

    def _run_padded(self, rows: Any) -> Any:
        """A graph exported for one batch size gets that size: the last part is filled up and its answers cut off."""
        assert self.fixed_batch is not None
        padding = np.zeros((self.fixed_batch - len(rows), *rows.shape[1:]), rows.dtype)
        return self._run(np.concatenate([rows, padding]))[: len(rows)]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_session": None}


def read_onnx(path: Path) -> OnnxModel:
    """The model of an .onnx file, with weights that are in other files beside it."""
    data = path.read_bytes()
    return OnnxModel(_with_external_data(path) if _EXTERNAL in data else data)


def open_session(data: bytes, threads: int, *, fused: bool = True) -> Any:
    """A session on the CPU; without fusing, every operator runs as the graph writes it."""
    runtime = import_onnx("onnxruntime")
    if b"location" in data:  # without this key no tensor is anywhere else
        _check_weights_inside(data)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 4  # its messages on stderr would repeat our errors
    options.use_deterministic_compute = True
    options.add_session_config_entry(
        "session.intra_op.allow_spinning", "0"
    )  # waiting threads would take the cores from the making of noise
    if not fused:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has a class for every cause and no common one
        raise UnusableModel(
            f"expected an ONNX graph, got one that onnxruntime does not open ({_first_line(error)}); export it again, "
            "with external_data=False"
        ) from None


def is_outside(part: Any) -> bool:
    """Whether a part of a graph, or anything in it, has values in another file, which no digest of the graph covers."""
    if part.DESCRIPTOR.full_name == "onnx.TensorProto" and part.data_location == part.EXTERNAL:
        return True
    inner = (value for field, value in part.ListFields() if field.message_type is not None)
    return any(is_outside(each) for value in inner for each in ([value] if hasattr(value, "DESCRIPTOR") else value))


def _check_weights_inside(data: bytes) -> None:
    """Keys and values may be written in any order, which a search for the usual bytes does not find."""
    try:
        graph = import_onnx("onnx").load_from_string(data)
    except Exception as error:  # protobuf's own class, which depends on how it was built
        raise UnusableModel(f"expected an ONNX graph, got one that onnx does not read ({_first_line(error)})") from None
    if is_outside(graph):
        raise UnusableModel(
            "expected a graph with its weights inside, got one that keeps them in another file; export it again, with external_data=False"
        )


def import_onnx(module: str) -> Any:
    """A module of onnx, onnxscript or onnxruntime, or MissingExtra: one extra installs all three."""
    return import_extra(module, extra="onnx", purpose="a network that onnxruntime runs")


def _with_external_data(path: Path) -> bytes:
    """The graph with the weights of its side files inside. onnx refuses side files outside the graph's directory."""
    onnx = import_onnx("onnx")
    try:
        data: bytes = onnx.load(str(path)).SerializeToString()
    except Exception as error:  # a side file missing or elsewhere: onnx has a class for every cause and no common one
        raise UnusableModel(
            f"expected the weights that {path} keeps in another file, got none ({_first_line(error)}); put that file "
            "beside it, or export again with external_data=False"
        ) from None
    return data


def _split(rows: Any, size: int) -> list[Any]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def _known(shape: Any) -> tuple[int, ...] | None:
    return tuple(shape) if shape and all(isinstance(side, int) for side in shape) else None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
