"""Batches through a network on a CUDA device, without waiting for the device in the loop.

A batch is five things put on one stream: a small copy of what is wanted, noise straight into the batch, the network,
the winning classes, a small copy back. On one stream they keep their order, so all batches share the same memory on the device;
only the two small copies have memory of their own, page-locked, until they are read. Noise, network and winners are
recorded once as a CUDA graph where the network allows it, so that a batch costs the host three calls.
"""

import logging
import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from recert.noise import Noise, Stream
from recert.noise.stream import NoisyRows, perturb_into
from recert.sampling.host_lane import Ticket
from recert.sampling.network import Network
from recert.votes import Votes

SHARE_FOR_INPUTS = 0.25
"""Of the free memory; more inputs than that are sent batch by batch."""
SECONDS_AHEAD = 0.3
"""How much work is queued on the device, so that it is not idle while votes are written to disk."""
MOST_AHEAD = 64
"""Batches under way, however short they are: each has page-locked memory of its own."""
log = logging.getLogger(__name__)


class DeviceLane:
    """Draws votes of noisy rows of `inputs`, in batches of one size."""

    def __init__(
        self,
        network: Network,
        inputs: NDArray[np.float32],
        keys: NDArray[np.uint64],
        noise: Noise,
        batch_size: int,
    ) -> None:
        self._network, self._noise, self._device = network, noise, network.device
        self._host_inputs = torch.from_numpy(inputs.reshape(len(inputs), -1))
        # The same bits as signed numbers: torch can hardly compute with unsigned 64-bit ones, and only the bits matter.
        self._host_keys = torch.from_numpy(keys.view(np.int64))
        self._all_here = inputs.nbytes <= SHARE_FOR_INPUTS * torch.cuda.mem_get_info(self._device)[0]
        # A batch has at most `batch_size` different inputs: so many rows are enough for any batch.
        rows = len(inputs) if self._all_here else batch_size
        self._inputs = torch.zeros((rows, inputs[0].size), device=self._device)
        self._keys = torch.zeros(rows, dtype=torch.int64, device=self._device)
        if self._all_here:
            self._inputs.copy_(self._host_inputs)
            self._keys.copy_(self._host_keys)
        self._wanted = torch.zeros((3, batch_size), dtype=torch.int64, device=self._device)
        self._batch = network.empty_batch(batch_size, inputs.shape[1:])
        self._winners = torch.zeros(batch_size, dtype=torch.int32, device=self._device)
        self._slots: list[_Slot] = []
        self._graph: torch.cuda.CUDAGraph | None = None
        self.depth = 2

    def submit(self, rows: NoisyRows) -> Ticket:
        """Begin a batch. Runs out of memory here if it does."""
        with torch.cuda.device(self._device):
            return self._submit(rows)

    def _submit(self, rows: NoisyRows) -> Ticket:
        # Slots are used again: page-locked memory is slow to allocate, and allocating it may wait for the device.
        slot = self._slots.pop() if self._slots else _Slot(len(self._winners))
        self._send(rows, slot.wanted)
        slot.started.record()
        self._wanted.copy_(slot.wanted, non_blocking=True)
        if self._graph is None:
            self._compute()
        else:
            self._graph.replay()
        slot.winners.copy_(self._winners, non_blocking=True)
        slot.finished.record()
        return lambda: self._read(slot)

    def noisy(self, rows: NoisyRows) -> Tensor:
        """The batch itself, in the network's type and memory format; good until the next one."""
        wanted = torch.empty(self._wanted.shape, dtype=torch.int64)
        with torch.cuda.device(self._device):
            self._send(rows, wanted)
            self._wanted.copy_(wanted)
            self._make_noise()
        return self._batch

    def record(self) -> None:
        """Record a batch as a CUDA graph, if the network can be recorded and the recording gives the same classes."""
        if not isinstance(self._network.model, nn.Module):
            return  # a function may do anything on the host, which a recording would leave out
        with torch.cuda.device(self._device):
            try:
                graph = self._recording()
            except Exception as error:  # networks that look at their values, or that leave the device
                torch.cuda.synchronize()
                log.info("not recorded as a CUDA graph: %s", error)
                return
            if self._same_as(graph):
                self._graph = graph

    def _recording(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        self._compute()  # whatever is done at the first call is done now
        torch.cuda.synchronize()
        # Other threads of the process may use CUDA meanwhile (a data loader, another lane): that must not spoil the recording.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self._compute()
        return graph

    def _same_as(self, graph: torch.cuda.CUDAGraph) -> bool:
        """Whether the recording gives the network's own classes on a batch that it has not seen."""
        # A recording repeats work of the device only: what the network does on the host is left out, and shows in other classes.
        numbers = np.arange(len(self._winners), dtype=np.int64)
        other = NoisyRows(numbers * 0, numbers + 2**20, np.full_like(numbers, Stream.CALIBRATION))
        batch = self.noisy(other)
        expected = self._network.winners(batch).clone()
        graph.replay()
        return torch.equal(expected, self._winners)

    def _compute(self) -> None:
        self._make_noise()
        self._winners.copy_(self._network.winners(self._batch))

    def _make_noise(self) -> None:
        rows, samples, streams = self._wanted
        perturb_into(self._batch, self._inputs, rows, self._keys, samples, streams, self._noise)

    def _send(self, rows: NoisyRows, wanted: Tensor) -> None:
        """Write what is wanted; send the inputs that it is about unless all are there."""
        places = rows.rows
        if not self._all_here:
            used, places = np.unique(rows.rows, return_inverse=True)
            chosen = torch.from_numpy(used)
            self._inputs[: len(used)].copy_(self._host_inputs[chosen])
            self._keys[: len(used)].copy_(self._host_keys[chosen])
        # Into the page-locked memory itself, through numpy: the copy to the device can then run beside the host.
        for target, values in zip(wanted.numpy(), (places, rows.samples, rows.streams), strict=True):
            target[:] = values

    def _read(self, slot: "_Slot") -> tuple[Votes, float]:
        slot.finished.synchronize()
        votes = self._network.votes(slot.winners.numpy())
        seconds = slot.started.elapsed_time(slot.finished) / 1_000
        # As many batches as take SECONDS_AHEAD, at least two, so that one can be read while another is computed.
        self.depth = max(2, min(MOST_AHEAD, math.ceil(SECONDS_AHEAD / max(seconds, 1e-6))))
        self._slots.append(slot)
        return votes, seconds


class _Slot:
    """Page-locked memory for the two small copies of a batch, and its clock."""

    def __init__(self, batch_size: int) -> None:
        self.wanted = torch.empty((3, batch_size), dtype=torch.int64, pin_memory=True)
        self.winners = torch.empty(batch_size, dtype=torch.int32, pin_memory=True)
        self.started = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        self.finished = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
