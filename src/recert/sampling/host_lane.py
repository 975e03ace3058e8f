"""Batches through a network whose noise the CPU makes.

Noise is made where the network is called, with all cores, and not in a thread of its own ahead of it: torch starts as many helpers for
that thread as there are cores, which wait busily and take the cores from the network. Noise takes about 1% of a small ResNet.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recert.noise import Noise
from recert.noise.stream import NoisyRows, perturb
from recert.sampling.network import Network
from recert.votes import Votes

Ticket = Callable[[], tuple[Votes, float]]
"""Waits for a batch: its votes, and the seconds it took."""


class HostLane:
    """Draws votes of noisy rows of `inputs`, batch after batch. `depth` batches are under way at a time, where a service answers several."""

    def __init__(self, network: Network, inputs: NDArray[np.float32], keys: NDArray[np.uint64], noise: Noise) -> None:
        self._network, self._keys, self._noise = network, keys, noise
        self._flat = torch.from_numpy(inputs.reshape(len(inputs), -1))
        self._shape = inputs.shape[1:]
        in_flight = 1 if network.requests is None else network.requests.remote.in_flight
        # Several requests to a service at a time, each in a thread that waits for it. Everything else is called in the user's thread.
        self._requests = ThreadPoolExecutor(in_flight, thread_name_prefix="recert-request") if in_flight > 1 else None
        # One more waits for its turn.
        self.depth = in_flight + 1 if self._requests is not None else 1

    def submit(self, rows: NoisyRows) -> Ticket:
        """Begin a batch, where a service is asked; else it is computed when it is read."""
        if self._requests is None:
            return lambda: self._votes(rows)
        answer = self._requests.submit(lambda: self._votes(rows)[0])
        return lambda: _waited_for(answer)

    def noisy(self, rows: NoisyRows) -> Tensor:
        """The batch itself, in the network's type and memory format."""
        flat = perturb(self._flat, self._keys, rows, self._noise)
        made = flat.reshape(-1, *self._shape)
        batch = self._network.empty_batch(len(made), self._shape)
        # A copy is made only where the network wants another type, memory format or device than noise is made in.
        alike = (made.dtype, made.stride(), made.device) == (batch.dtype, batch.stride(), batch.device)
        return made if alike else batch.copy_(made.to(batch.dtype))

    def _votes(self, rows: NoisyRows) -> tuple[Votes, float]:
        started = time.perf_counter()
        votes = self._network.votes(self._network.winners(self.noisy(rows)).cpu().numpy())
        return votes, time.perf_counter() - started


def _waited_for(answer: Future[Votes]) -> tuple[Votes, float]:
    """Votes of a request, and the seconds that were waited for them: those of requests at the same time add up to the time that passed."""
    started = time.perf_counter()
    return answer.result(), time.perf_counter() - started
