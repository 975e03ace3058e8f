"""How many samples make a batch: as many as make the network fastest, and no more."""

import math
import time

import torch

from recert.models.inference import PreparedModel
from recert.sampling.network import Network

ELEMENTS_PER_BATCH = 2**20
"""On a CPU, batches that stay near its caches; larger ones were not faster (benchmarks/scaling.py)."""
ELEMENTS_TRIED = (2**21, 2**27)
"""On a device, the smallest and the largest batch that is timed."""
LARGEST_BATCH = {"cpu": 4_096, "cuda": 16_384}
WORTH_DOUBLING = 1.02
"""Doubling must make samples cheaper by so much: less is within what timings vary, and takes memory for nothing."""
TIMED_PASSES = 3


def usual_batch_size(elements: int, device: torch.device) -> int:
    """By the size of an input: the choice on a CPU, where to begin on a device."""
    wanted = ELEMENTS_PER_BATCH if device.type != "cuda" else ELEMENTS_TRIED[0]
    return min(_power_of_two(wanted / elements), LARGEST_BATCH.get(device.type, 4_096))


def fastest_batch_size(network: Network, shape: tuple[int, ...], smallest: int) -> int:
    """Double the batch as long as that makes samples cheaper and memory suffices. The network is timed uncompiled."""
    largest = min(_power_of_two(ELEMENTS_TRIED[1] / math.prod(shape)), LARGEST_BATCH["cuda"])
    best, size, rate = smallest, smallest, 0.0
    while size <= max(largest, smallest):
        try:
            now = _samples_per_second(network, shape, size)
        except Exception as error:
            # The smallest batch must run: if it does not, the caller halves it, or reports the network as unusable.
            if size > smallest and out_of_memory(error):
                break
            raise
        if now < rate * WORTH_DOUBLING:
            break
        best, rate, size = size, now, 2 * size
    torch.cuda.empty_cache()
    return best


def out_of_memory(error: Exception) -> bool:
    """Whether an error of a network may disappear with smaller batches."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    # The CPU allocator and some libraries report a lack of memory as a plain RuntimeError: only its text says so.
    message = str(error).lower()
    return isinstance(error, RuntimeError) and ("out of memory" in message or "can't allocate memory" in message)


def _samples_per_second(network: Network, shape: tuple[int, ...], size: int) -> float:
    model = network.model
    run = model.uncompiled if isinstance(model, PreparedModel) else model
    batch = network.empty_batch(size, shape).fill_(0.5)
    with torch.inference_mode(), network.modes():
        # One pass that is not timed: it allocates memory and chooses kernels.
        run(batch)
        torch.cuda.synchronize(network.device)
        started = time.perf_counter()
        for _ in range(TIMED_PASSES):
            run(batch)
        torch.cuda.synchronize(network.device)
    return TIMED_PASSES * size / (time.perf_counter() - started)


def _power_of_two(value: float) -> int:
    """The largest that is not above the value.

    >>> [_power_of_two(x) for x in (0.3, 1, 5, 4096)]
    [1, 1, 4, 4096]
    """
    return int(2 ** math.floor(math.log2(max(value, 1))))
