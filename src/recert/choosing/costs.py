"""What a model costs: bytes, non-zero parameters, measured latency, or what the user gives."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from recert.choosing.onnx_weights import nonzero_in_file, zeros_save
from recert.models.exported_program import as_module
from recert.models.onnx_model import OnnxModel
from recert.models.permanent import permanent
from recert.models.tensors import flatten, held_by, parts_of, tensors_in
from recert.sampling.inputs import checked_inputs
from recert.sampling.network import Network

KINDS = ("bytes", "parameters", "latency")
WARM_UP = 3
"""Batches that are not timed: the first ones also allocate memory and choose kernels."""
ROUNDS = 15
"""Odd, so that the median is one of the times; a few slow batches do not move it."""
LATENCY_ROWS = 32

CostModel = str | Mapping[str, float] | Callable[[Any], float]


@dataclass(frozen=True)
class Costs:
    """A cost for every candidate, in one unit, and how it was found."""

    values: dict[str, float]
    unit: str
    note: str


def find_costs(models: Mapping[str, Any], cost: CostModel, inputs: Any) -> Costs:
    """Costs by name: one of KINDS, a function of a model, or a mapping with a number for every candidate."""
    models = {name: as_module(model) for name, model in models.items()}
    if isinstance(cost, str):
        if cost not in KINDS:
            raise ValueError(
                f"expected cost to be one of {', '.join(KINDS)}, a function or a mapping of numbers, got {cost!r}"
            )
        unsupported = next((name for name, model in models.items() if not isinstance(model, nn.Module)), None)
        if unsupported is not None and not (cost == "latency" and callable(models[unsupported])):
            raise ValueError(
                f"expected torch modules to find their {cost}, got {type(models[unsupported]).__name__} for candidate "
                f"{unsupported!r}; pass cost={{name: number}}"
            )
        models = {name: permanent(model) if isinstance(model, nn.Module) else model for name, model in models.items()}
        if cost == "latency":
            return _latencies(models, inputs)
        measure, note = (stored_bytes, _BYTES) if cost == "bytes" else (nonzero_parameters, _PARAMETERS)
        return Costs({name: float(measure(model)) for name, model in models.items()}, cost, note)
    if isinstance(cost, Mapping):
        missing = [name for name in models if name not in cost]
        if missing:
            raise ValueError(f"expected a cost for every candidate, got none for {', '.join(missing)}")
        values = {name: float(cost[name]) for name in models}
    else:
        values = {name: float(cost(model)) for name, model in models.items()}
    if not all(np.isfinite(value) for value in values.values()):
        raise ValueError(f"expected finite costs, got {values}")
    return Costs(values, "cost", "as given")


_BYTES = (
    "the weights, stored without loss: each tensor in the narrowest of int8, float16, bfloat16 and its own type, quantised weights in four "
    "bits where these hold them, without zeros where that is smaller; of an ONNX graph its file, less what zeros save"
)
_PARAMETERS = "parameters that are not zero"


def stored_bytes(model: nn.Module) -> int:
    """What the weights take when stored without loss. Pruning alone frees no byte of a dense tensor; leaving out zeros does."""
    return sum(_bytes(tensor) for tensor in _tensors(model)) - sum(zeros_save(file) for file in _files(model))


def nonzero_parameters(model: nn.Module) -> int:
    """Parameters that are not zero; in an ONNX graph its constants, without scales and zero points."""
    counted = sum(nonzero_in_file(file) for file in _files(model))
    weights = {id(p): p for p in (*model.parameters(), *_packed(model))}.values()
    return counted + sum(int(torch.count_nonzero(_as_numbers(p))) for p in weights)


def _files(model: nn.Module) -> Iterator[bytes]:
    """The ONNX graphs inside a model."""
    return (module.data.cpu().numpy().tobytes() for module in model.modules() if isinstance(module, OnnxModel))


def _tensors(model: nn.Module) -> Iterator[Tensor]:
    """Parameters and buffers, each once."""
    # By identity, since layers may share a tensor, which a file stores once.
    held = {id(t): t for t in (*model.parameters(), *model.buffers(), *_packed(model))}.values()
    return (part for tensor in held for _, part in parts_of(tensor))


def _packed(model: nn.Module) -> Iterator[Tensor]:
    """Weights that torch's quantised layers keep packed, as no parameters."""
    return (tensor for value in held_by(model).values() for tensor in tensors_in(value) if tensor.is_quantized)


def _as_numbers(tensor: Tensor) -> Tensor:
    """What quantised weights stand for; others as they are."""
    quantised = tensor.is_quantized or flatten(tensor) is not None
    return tensor.detach().dequantize() if quantised and hasattr(tensor, "dequantize") else tensor.detach()


def _bytes(tensor: Tensor) -> int:
    values = tensor.detach()
    if values.is_floating_point() and values.element_size() > 1:
        return _bytes_of_floats(values)
    small = values.dtype in (torch.int8, torch.uint8) and values.numel() > 0
    lowest, highest = (int(values.min()), int(values.max())) if small else (0, 255)
    four_bits = (lowest >= -8 and highest <= 7) or (lowest >= 0 and highest <= 15)
    return -(-values.numel() // 2) if four_bits else values.nbytes


def _bytes_of_floats(values: Tensor) -> int:
    width = min(_widths(values))
    # Dense, or the other values with one bit for each place that says whether it is zero, rounded up to whole bytes.
    return min(values.numel() * width, int(torch.count_nonzero(values)) * width + -(-values.numel() // 8))


def _widths(values: Tensor) -> Iterator[int]:
    """Bytes per value of the types that hold all values exactly."""
    yield values.element_size()
    for dtype in (torch.int8, torch.float16, torch.bfloat16):
        # What a value beyond the range of int8 is converted to is undefined in C: such values are not converted at all.
        if dtype is torch.int8 and not bool((values.abs() <= 127).all()):
            continue
        if bool((values.to(dtype).to(values.dtype) == values).all()):
            yield dtype.itemsize


def _latencies(models: Mapping[str, Any], inputs: Any) -> Costs:
    """Median seconds of a batch, after a warm-up; candidates take turns, so that a busy moment hits all of them."""
    rows = torch.from_numpy(checked_inputs(inputs)[:LATENCY_ROWS])
    networks = {name: Network(model) for name, model in models.items()}
    seconds: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(WARM_UP + ROUNDS):
        for name, network in networks.items():
            took = _seconds(network, rows.to(network.device))
            if turn >= WARM_UP:
                seconds[name].append(took)
    spreads = [(np.quantile(s, 0.75) - np.quantile(s, 0.25)) / statistics.median(s) for s in seconds.values()]
    threads = torch.get_num_threads()
    note = (
        f"median of {ROUNDS} batches of {len(rows)} after {WARM_UP} to warm up, candidates in turn, {threads} "
        f"{'thread' if threads == 1 else 'threads'}; the middle half of the times spreads by up to {max(spreads):.0%} of the median"
    )
    return Costs({name: statistics.median(s) * 1e3 for name, s in seconds.items()}, "milliseconds per batch", note)


def _seconds(network: Network, batch: Tensor) -> float:
    started = time.perf_counter()
    network.answer(batch)
    # A device computes beside the host: without waiting for it, only the time to submit the batch would be measured.
    if batch.device.type == "cuda":
        torch.cuda.synchronize(batch.device)
    return time.perf_counter() - started
