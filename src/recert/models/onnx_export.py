"""A torch model into an ONNX graph, which onnxruntime runs faster than torch does on a CPU (docs/performance.md)."""

import io
import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from recert.errors import UnusableModel
from recert.models.exported_program import as_module, in_eval_mode
from recert.models.onnx_model import OnnxModel, import_onnx
from recert.models.permanent import copied, permanent


def to_onnxruntime(model: nn.Module, example_input: NDArray[np.float32]) -> OnnxModel:
    """The network in float32 on the CPU, computed by onnxruntime; `example_input` is a batch that it takes."""
    import_onnx("onnxruntime")
    private = in_eval_mode(copied(permanent(as_module(model))).cpu().float())
    with tempfile.TemporaryDirectory() as folder, quietly():
        path = str(Path(folder, "exported.onnx"))
        export(private, np.asarray(example_input, dtype=np.float32), path)
        file = without_metadata(import_onnx("onnx").load(path))
    return OnnxModel(file.SerializeToString(deterministic=True)).eval()


def without_metadata(file: Any) -> Any:
    """Drop notes on where the graph came from (source paths among them): the same model gives the same bytes."""
    graph = file.graph
    for part in (graph, *graph.node, *graph.initializer, *graph.value_info, *graph.input, *graph.output):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")
    return file


def export(model: nn.Module, rows: NDArray[np.float32], path: str) -> None:
    """Write the graph of a float32 model on the CPU, for batches of any size."""
    import_onnx("onnxscript")
    example = torch.from_numpy(np.resize(rows, (2, *rows.shape[1:])))  # torch.export takes a batch of 1 for a constant
    batch = ({0: torch.export.Dim.DYNAMIC},)
    try:
        program = torch.onnx.export(
            in_eval_mode(_Logits(model)),
            (example,),
            dynamo=True,
            dynamic_shapes=batch,
            verbose=False,
            external_data=False,
        )
    except Exception as error:
        raise UnusableModel(
            f"expected a model that torch.onnx.export can trace with any batch size, got {first_cause(error)}; "
            "rewrite what it cannot trace, or make the .onnx file yourself and pass that"
        ) from error
    assert program is not None
    program.save(path, external_data=False)


class _Logits(nn.Module):
    """The model with its logits taken out of what it wraps them in."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Tensor) -> Any:
        answer = self.model(batch)
        return getattr(answer, "logits", answer)


def first_cause(error: BaseException) -> str:
    """The first line of what went wrong first; exporters wrap it in pages of advice."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


@contextmanager
def quietly() -> Iterator[None]:
    """Without the progress, graphs and deprecation messages of the exporters, of which the user can change nothing."""
    disabled = logging.root.manager.disable
    logging.disable(max(disabled, logging.WARNING))
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
