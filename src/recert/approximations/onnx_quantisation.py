"""A torch model into a quantised ONNX file: export, prepare, measure ranges on noisy inputs, quantise."""

import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
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
    onnx, quantization = needed("onnx"), needed("onnxruntime.quantization")
    prepare = needed("onnxruntime.quantization.shape_inference").quant_pre_process
    with tempfile.TemporaryDirectory() as folder, _quiet():
        exported, prepared, quantised = (str(Path(folder, f"{step}.onnx")) for step in ("exported", "prepared", "int8"))
        _export(model, calibration, exported)
        prepare(exported, prepared)
        quantization.quantize_static(
            prepared,
            quantised,
            _reader(calibration, onnx.load(prepared).graph.input[0].name),
            quant_format=quantization.QuantFormat.QDQ,
            op_types_to_quantize=QUANTISED_OPERATORS,
            per_channel=True,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
            calibrate_method=quantization.CalibrationMethod.MinMax,
        )
        file = without_traces(with_float_outputs(onnx.load(quantised)))
    content: bytes = file.SerializeToString(deterministic=True)
    return content


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
            f"expected a model that torch.onnx.export can trace with any batch size, got {type(error).__name__}: {error}; "
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


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the progress and deprecation messages of the exporters, which are none of the user's business."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir", "root")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
