"""How many samples make a batch: as many as make the network nearly fastest, and no more."""

import math
import time
from collections.abc import Callable

import torch

from recert.models.inference import PreparedModel
from recert.sampling.network import Network

ELEMENTS_PER_BATCH = {"cpu": 2**17, "cuda": 2**21}
"""Where the search begins. On a CPU larger batches leave its caches, and their memory is given back and taken anew at every layer."""
FEWEST_ELEMENTS = {"cpu": 2**16, "cuda": 2**21}
MOST_ELEMENTS = {"cpu": 2**21, "cuda": 2**27}
LARGEST_BATCH = {"cpu": 4_096, "cuda": 16_384}
WORTH_ANOTHER = 1.1
"""On a CPU another size must make samples cheaper by so much: less is within what timings vary, since others use it as well."""
NEARLY_FASTEST = 0.98
"""On a device the smallest batch that reaches so much of the speed of the fastest: where few votes are wanted less of it is empty, and votes
are looked at more often."""
TIMED_PASSES = 3
"""On a device, which takes passes in a queue."""
TIMED_SECONDS = 0.1
"""Passes are timed, on a CPU one by one and at least two, until so much time has gone by: the fastest is the one that nothing disturbed."""
WORTH_TIMING = 0.005
"""Seconds of a batch on a CPU. A faster network keeps the usual size: it is hardly ever what takes the time."""


def usual_batch_size(elements: int, device: torch.device) -> int:
    """By the size of an input: where the search begins."""
    kind = _kind(device)
    return min(_power_of_two(ELEMENTS_PER_BATCH[kind] / elements), LARGEST_BATCH[kind])


def fastest_batch_size(network: Network, shape: tuple[int, ...], usual: int) -> int:
    """Found by timing the network, uncompiled, as long as memory suffices."""
    kind = _kind(network.device)
    largest = max(usual, min(_power_of_two(MOST_ELEMENTS[kind] / math.prod(shape)), LARGEST_BATCH[kind]))
    doublings = [usual * 2**k for k in range(1, (largest // usual).bit_length())]
    if kind == "cuda":
        best = _smallest_of_the_fast(network, shape, [usual, *doublings])
        torch.cuda.empty_cache()
        return best
    rate = _samples_per_second(network, shape, usual)
    if usual / rate < WORTH_TIMING:
        return usual
    best = _climb(network, shape, usual, rate, doublings)
    if best == usual:
        fewest = _power_of_two(FEWEST_ELEMENTS[kind] / math.prod(shape))
        best = _climb(network, shape, usual, rate, [usual // 2**k for k in range(1, (usual // fewest).bit_length())])
    return best


def _smallest_of_the_fast(network: Network, shape: tuple[int, ...], sizes: list[int]) -> int:
    """Up as long as samples become cheaper; then down to the smallest that is nearly as fast.

    Each is timed again on the way down: a device that was idle is slow at first, which makes the first sizes look worse than they are.
    """
    best, most = 0, _samples_per_second(network, shape, sizes[0])
    for place, size in enumerate(sizes[1:], 1):
        now = _rate_if_it_fits(network, shape, size)
        if now is None or now <= most:
            break
        best, most = place, now
    while best and _samples_per_second(network, shape, sizes[best - 1]) >= NEARLY_FASTEST * most:
        best -= 1
    return sizes[best]


def _climb(network: Network, shape: tuple[int, ...], best: int, rate: float, sizes: list[int]) -> int:
    """The last of the sizes up to which each makes samples cheaper."""
    for size in sizes:
        now = _rate_if_it_fits(network, shape, size)
        if now is None or now < rate * WORTH_ANOTHER:
            break
        if now < _samples_per_second(network, shape, best) * WORTH_ANOTHER:
            break  # what was slow before was something else that ran on the machine
        best, rate = size, now
    return best


def _rate_if_it_fits(network: Network, shape: tuple[int, ...], size: int) -> float | None:
    """Samples per second, or None without memory. Not of the first size: that must run, and if it does not, the caller halves it."""
    try:
        return _samples_per_second(network, shape, size)
    except Exception as error:
        if out_of_memory(error):
            return None
        raise


def out_of_memory(error: Exception) -> bool:
    """Whether an error of a network may disappear with smaller batches."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    # The CPU allocator and some libraries report a lack of memory as a plain RuntimeError: only its text says so.
    message = str(error).lower()
    return isinstance(error, RuntimeError) and ("out of memory" in message or "can't allocate memory" in message)


def _samples_per_second(network: Network, shape: tuple[int, ...], size: int) -> float:
    model, kind = network.model, _kind(network.device)
    run = model.uncompiled if isinstance(model, PreparedModel) else model
    batch = network.empty_batch(size, shape).fill_(0.5)
    with torch.inference_mode(), network.modes():
        # One pass that is not timed: it allocates memory and chooses kernels.
        run(batch)
        passes, least = (TIMED_PASSES, 1) if kind == "cuda" else (1, 2)
        taken: list[float] = []
        while len(taken) < least or sum(taken) < TIMED_SECONDS:
            taken.append(_seconds(lambda: [run(batch) for _ in range(passes)], network.device))
    return passes * size / min(taken)


def _seconds(call: Callable[[], object], device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    started = time.perf_counter()
    call()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - started


def _kind(device: torch.device) -> str:
    """Any other device has the sizes of a CPU, which makes its batches."""
    return "cuda" if device.type == "cuda" else "cpu"


def _power_of_two(value: float) -> int:
    """The largest that is not above the value.

    >>> [_power_of_two(x) for x in (0.3, 1, 5, 4096)]
    [1, 1, 4, 4096]
    """
    return int(2 ** math.floor(math.log2(max(value, 1))))
