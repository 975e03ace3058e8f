"""A torch model into a quantised ONNX file: export, prepare, measure ranges on noisy inputs, quantise."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from recert.approximations.calibration import Calibration
from recert.approximations.onnx_file import with_float_outputs
from recert.approximations.onnx_layers import nodes_beside
from recert.errors import UnusableModel
from recert.models.onnx_export import export, first_cause, quietly, without_metadata
from recert.models.onnx_model import import_onnx

QUANTISED_OPERATORS = [
    "Conv", "Gemm", "MatMul",
    # between the layers, so that values stay integers from one layer to the next
    "Add", "Relu", "Clip", "MaxPool", "AveragePool", "GlobalAveragePool",
    "Concat", "Flatten", "Pad", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze",
]  # fmt: skip
CALIBRATION_BATCH = 64


def quantised_file(model: nn.Module, calibration: Calibration, layers: frozenset[str] | None = None) -> bytes:
    """The bytes of a static, per-channel u8s8 QDQ file of a float32 model on the CPU, with float32 logits.

    With `layers`, only these (by their names in the model) and what lies between two of them.
    """
    onnx, _ = import_onnx("onnx"), import_onnx("onnxruntime.quantization")
    with tempfile.TemporaryDirectory() as folder, quietly():
        exported, prepared, quantised = (str(Path(folder, f"{step}.onnx")) for step in ("exported", "prepared", "int8"))
        export(model, calibration.noisy(0, 2), exported)
        try:
            _quantise(exported, prepared, quantised, calibration, layers)
        except UnusableModel:
            raise
        except Exception as error:
            raise UnusableModel(
                f"onnxruntime could not quantise the exported model: {first_cause(error)}; "
                "quantise it yourself and pass the .onnx file"
            ) from error
        file = without_metadata(with_float_outputs(onnx.load(quantised)))
    content: bytes = file.SerializeToString(deterministic=True)
    return content


def _quantise(
    exported: str, prepared: str, quantised: str, calibration: Calibration, layers: frozenset[str] | None
) -> None:
    quantization = import_onnx("onnxruntime.quantization")
    # Shapes are in the export; inferring them again fails on some graphs (ConvNeXt, ViT).
    import_onnx("onnxruntime.quantization.shape_inference").quant_pre_process(
        exported, prepared, skip_symbolic_shape=True
    )
    graph = import_onnx("onnx").load(prepared).graph
    quantization.quantize_static(
        prepared,
        quantised,
        _reader(calibration, graph.input[0].name),
        quant_format=quantization.QuantFormat.QDQ,
        op_types_to_quantize=QUANTISED_OPERATORS,
        nodes_to_exclude=_products_of_activations(graph) + ([] if layers is None else nodes_beside(graph, layers)),
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


def _reader(calibration: Calibration, name: str) -> Any:
    """Noisy batches as onnxruntime wants them."""

    class Reader(import_onnx("onnxruntime.quantization").CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.starts = iter(range(0, len(calibration), CALIBRATION_BATCH))

        def get_next(self) -> dict[str, NDArray[np.float32]] | None:
            start = next(self.starts, None)
            return None if start is None else {name: calibration.noisy(start, start + CALIBRATION_BATCH)}

    return Reader()
