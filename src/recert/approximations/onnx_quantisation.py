"""A torch model into a quantised ONNX file: export, prepare, measure ranges on noisy inputs, quantise."""

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

from recert.approximations.calibration import Calibration
from recert.approximations.onnx_file import with_float_outputs, without_traces
from recert.approximations.optional import needed
from recert.errors import UnusableModel

QUANTISED_OPERATORS = [
    "Conv", "Gemm", "MatMul",
    # between the layers, so that values stay integers from one layer to the next
    "Add", "Relu", "Clip", "MaxPool", "AveragePool", "GlobalAveragePool",
    "Concat", "Flatten", "Pad", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze",
]  # fmt: skip
CALIBRATION_BATCH = 64


def quantised_file(model: nn.Module, calibration: Calibration) -> bytes:
    """The bytes of a static, per-channel u8s8 QDQ file of a float32 model on the CPU, with float32 logits."""
    onnx, _ = needed("onnx"), needed("onnxruntime.quantization")
    with tempfile.TemporaryDirectory() as folder, _quiet():
        exported, prepared, quantised = (str(Path(folder, f"{step}.onnx")) for step in ("exported", "prepared", "int8"))
        _export(model, calibration, exported)
        try:
            _quantise(exported, prepared, quantised, calibration)
        except Exception as error:
            raise UnusableModel(
                f"onnxruntime could not quantise the exported model: {_reason(error)}; "
                "quantise it yourself and pass the .onnx file"
            ) from error
        file = without_traces(with_float_outputs(onnx.load(quantised)))
    content: bytes = file.SerializeToString(deterministic=True)
    return content


def _quantise(exported: str, prepared: str, quantised: str, calibration: Calibration) -> None:
    quantization = needed("onnxruntime.quantization")
    # Shapes are in the export; inferring them again fails on some graphs (ConvNeXt, ViT).
    needed("onnxruntime.quantization.shape_inference").quant_pre_process(exported, prepared, skip_symbolic_shape=True)
    graph = needed("onnx").load(prepared).graph
    quantization.quantize_static(
        prepared,
        quantised,
        _reader(calibration, graph.input[0].name),
        quant_format=quantization.QuantFormat.QDQ,
        op_types_to_quantize=QUANTISED_OPERATORS,
        nodes_to_exclude=_products_of_activations(graph),
        per_channel=True,
        activation_type=quantization.QuantType.QUInt8,
        weight_type=quantization.QuantType.QInt8,
        calibrate_method=quantization.CalibrationMethod.MinMax,
    )


def _products_of_activations(graph: Any) -> list[str]:
    """Matrix products without a weight, as in attention. They stay in float32: they are no linear layers, and
    onnxruntime's fused integer Softmax between two of them is wrong for any output scale but 1/256.
    """
    weights = {tensor.name for tensor in graph.initializer}
    products = [node for node in graph.node if node.op_type == "MatMul" and not weights & set(node.input)]
    return [node.name for node in products]


class _Logits(nn.Module):
    """The model with its logits taken out of what it wraps them in."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Tensor) -> Any:
        answer = self.model(batch)
        return getattr(answer, "logits", answer)


def _export(model: nn.Module, calibration: Calibration, path: str) -> None:
    needed("onnxscript")
    rows = calibration.noisy(0, 2)
    example = torch.from_numpy(np.resize(rows, (2, *rows.shape[1:])))  # torch.export takes a batch of 1 for a constant
    batch = ({0: torch.export.Dim.DYNAMIC},)
    try:
        program = torch.onnx.export(
            _Logits(model).eval(), (example,), dynamo=True, dynamic_shapes=batch, verbose=False, external_data=False
        )
    except Exception as error:
        raise UnusableModel(
            f"expected a model that torch.onnx.export can trace with any batch size, got {_reason(error)}; "
            "rewrite what it cannot trace, or quantise the model yourself and pass the .onnx file"
        ) from error
    assert program is not None
    program.save(path, external_data=False)


def _reader(calibration: Calibration, name: str) -> Any:
    """Noisy batches as onnxruntime wants them."""

    class Reader(needed("onnxruntime.quantization").CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.starts = iter(range(0, len(calibration), CALIBRATION_BATCH))

        def get_next(self) -> dict[str, NDArray[np.float32]] | None:
            start = next(self.starts, None)
            return None if start is None else {name: calibration.noisy(start, start + CALIBRATION_BATCH)}

    return Reader()


def _reason(error: BaseException) -> str:
    """The first line of what went wrong first; exporters wrap it in pages of advice."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the progress, graphs and deprecation messages of the exporters, which are none of the user's business."""
    disabled = logging.root.manager.disable
    logging.disable(max(disabled, logging.WARNING))
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
