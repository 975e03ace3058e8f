"""How long a forward pass of a network takes, before any vote is drawn."""

import time

import torch

from recert.models.inference import PreparedModel
from recert.sampling.batch_size import usual_batch_size
from recert.sampling.network import Network

TIMED_BATCHES = 3


def seconds_per_pass(network: Network, shape: tuple[int, ...], batch_size: int | None = None) -> float:
    """Seconds for one row of a full batch, uncompiled: the fastest of a few batches, after one that is not timed."""
    size = batch_size or usual_batch_size(torch.Size(shape).numel(), network.device)
    model = network.model
    run = model.uncompiled if isinstance(model, PreparedModel) else model
    batch = network.empty_batch(size, shape).fill_(0.5)
    seconds = []
    with torch.inference_mode(), network.modes():
        for _ in range(1 + TIMED_BATCHES):
            started = time.perf_counter()
            run(batch)
            if network.device.type == "cuda":
                torch.cuda.synchronize(network.device)
            seconds.append(time.perf_counter() - started)
    return min(seconds[1:]) / size
