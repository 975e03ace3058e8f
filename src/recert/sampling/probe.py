"""A vote must be a function of (model, input, sample). The probe finds networks for which it is not."""

import torch
from torch import Tensor, nn

from recert.errors import UnusableModel
from recert.models.inference import PreparedModel, tf32_flags
from recert.sampling.network import Network

PROBE_BATCHES = 5
PROBE_ROWS, PROBE_ROWS_AGAIN = 4, 3
"""Of a function, whose rows may cost money: so many rows, whose answers are votes, and so many more that repeat most of them in another
company."""
TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-6}
"""How far logits may differ, relative to the largest, when a row moves within its batch: kernels sum in another order there."""
TOLERANCE_OF_HALF = 5e-2
"""Also of TF32, which rounds what it multiplies to as many digits as float16."""


def probe(network: Network, batch: Tensor) -> None:
    """Refuse a network whose answer varies between calls or depends on the other rows of the batch.

    Five passes, and one row, if the network can be used. Rows of either half come again, at their places, in a batch whose other rows are
    four times as large: their answers must be the same, to the bit. Then the batch comes in reverse, and filled with copies of its
    last row: a network that counts rows, ranks them or looks at the first one then gives others. At last that row comes alone.
    """
    half = max(1, len(batch) // 2)
    first = network.answer(batch)
    beside = network.answer(_joined(batch, batch[:half], 4 * batch[half:]))
    if not _same(first[:half], beside[:half]):
        _refuse(network, batch, first, first[:half], beside[:half])
    behind = network.answer(_joined(batch, 4 * batch[:half], batch[half:]))
    if not _same(first[half:], behind[half:]):
        _refuse(network, batch, first, first[half:], behind[half:])
    reverse = network.answer(_joined(batch, batch.flip(0))).flip(0)
    if not _close(first, reverse):
        _refuse(network, batch, first, first, reverse)
    last = first[-1:].expand_as(first)
    alone = network.answer(_joined(batch, batch[-1:].expand_as(batch)))
    if not _close(last, alone):
        _refuse(network, batch, first, last, alone)
    _check_alone(network, batch[-1:], last[:1])


def _check_alone(network: Network, row: Tensor, expected: Tensor) -> None:
    """Refuse a network that looks at how many rows there are. Functions that count their calls are asked no more; a compiled
    network would be compiled anew, and a graph that was made for one size takes no other."""
    compiled = isinstance(network.model, PreparedModel) and network.model.inference.compiled
    if not isinstance(network.model, nn.Module) or compiled:
        return
    try:
        answer = network.answer(torch.empty_like(row).copy_(row))
    except Exception:  # of any kind: it is for one size
        return
    if not _close(expected, answer):
        raise UnusableModel(
            "a row's output depends on how many rows its batch has: alone it is another; make the network compute each row by itself"
        )


def probe_function(network: Network, batch: Tensor) -> Tensor:
    """The same for a function, with few rows, each of which may cost money: what it answers to the batch is returned.

    A second batch repeats rows of the first: backwards, so that each is at another place and beside others, after a row that is four
    times as large, and without one of them, so that it is shorter. All rows that came before must have their answers again. How a
    function votes in full batches shows when votes are asked for a second time (`recert.sampling.replays`).
    """
    count = len(batch)
    again = torch.arange(count).flip(0)
    if count >= PROBE_ROWS:
        again = again[again != 1]
    answer = network.answer(batch)
    rows = batch[again]
    compared = slice(0 if count == 1 else 1, None)  # a single row is asked for again as it is
    if count > 1:
        rows[0] *= 4
    expected, got = answer[again][compared], network.answer(rows)[compared]
    if not _close(expected, got):
        _refuse(network, batch, answer, expected, got)
    return answer


def _joined(batch: Tensor, *parts: Tensor) -> Tensor:
    """Rows in the memory format of the batch, in which alone the network computes to the same bits: `cat` loses it for one row."""
    return torch.empty_like(batch).copy_(torch.cat(parts))


def _refuse(network: Network, batch: Tensor, first: Tensor, expected: Tensor, got: Tensor) -> None:
    # One more pass, only where something differs, to name the cause: the network's own randomness, or the other rows.
    again = network.answer(batch)
    if not _same(first, again):
        raise UnusableModel(
            f"the model is not deterministic: two passes over the same batch differ in {_share(first, again)} of the rows; "
            "remove its own randomness (dropout, sampling, a denoiser's generator), "
            "or call torch.use_deterministic_algorithms(True)"
        )
    raise UnusableModel(
        f"a row's output depends on the other rows of its batch ({_share(expected, got)} of the rows "
        "changed when others did), as with per-tensor dynamic activation scales, batch statistics or a capacity that experts "
        "share; use static scales and running statistics, or pass batch_size=1 (--batch-size 1), with which every row is alone"
    )


def _close(a: Tensor, b: Tensor) -> bool:
    """Labels must be equal; logits but for the last bits."""
    if a.ndim == 1 or not a.is_floating_point():
        return _same(a, b)
    finite = a.isfinite() & b.isfinite()
    scale = torch.where(finite, a.abs(), 0).amax().clamp(min=1e-30)
    near = (a - b).abs() <= _tolerance(a) * scale
    return bool((near | (a == b) | (a.isnan() & b.isnan())).all())


def _tolerance(logits: Tensor) -> float:
    if logits.is_cuda and logits.dtype == torch.float32 and any(tf32_flags()):
        return TOLERANCE_OF_HALF
    return TOLERANCE.get(logits.dtype, TOLERANCE_OF_HALF)


def _same(a: Tensor, b: Tensor) -> bool:
    # NaN differs from itself, but a network that answers NaN twice has answered the same.
    return bool(((a == b) | (a.isnan() & b.isnan())).all())


def _share(a: Tensor, b: Tensor) -> str:
    changed = (a != b).flatten(1).any(dim=1) if a.ndim > 1 else a != b
    return f"{changed.float().mean().item():.1%}"
