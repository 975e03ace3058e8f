"""Votes of a model under noise: packed over inputs, in batches of one padded shape, in constant memory."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recert.errors import UnusableModel
from recert.models.digest import identify, numerics
from recert.noise import Gaussian, Stream, input_digest, noise_key
from recert.noise.stream import NoisyRows, perturb
from recert.sampling.inputs import checked_inputs
from recert.sampling.network import Model, Network
from recert.sampling.probe import PROBE_BATCHES, probe
from recert.sampling.work import Piece, Progress, ProgressCallback, VoteChunk, Work, noisy_rows, pack
from recert.votes import Votes

ELEMENTS_PER_BATCH = {"cpu": 2**20}  # batches that stay near a CPU's caches
ELEMENTS_PER_DEVICE_BATCH = 2**23
LARGEST_DEFAULT_BATCH = 4096


class Sampler:
    """Draws votes of one model for some inputs. Raises UnusableModel at once if the model cannot be certified."""

    def __init__(
        self,
        model: Model,
        inputs: Any,
        *,
        noise: Gaussian,
        seed: int,
        batch_size: int | None = None,
        device: str | torch.device | None = None,
        classes: int | None = None,
        identity: str | None = None,
    ) -> None:
        self.inputs = checked_inputs(inputs)
        self.input_shape = self.inputs.shape[1:]
        self.noise = noise
        self.streams = frozenset(Stream)
        self.digests = [input_digest(x) for x in self.inputs]
        self._keys = np.array([noise_key(seed, digest) for digest in self.digests], dtype=np.uint64)
        self._network = Network(model, device, classes)
        self.batch_size = _batch_size(batch_size, self.inputs[0].size, self._network.device)
        self._probe()
        self.classes = self._network.classes
        self.identity = identify(model, identity)

    @property
    def numerics(self) -> dict[str, str]:
        return numerics(self._network.device, self._network.dtype, self.batch_size)

    @property
    def probe_passes(self) -> int:
        """Forward passes spent on finding out whether the model can be certified."""
        return PROBE_BATCHES * self.batch_size

    def draw(
        self, works: Sequence[Work], task: str = "sampling", progress: ProgressCallback | None = None
    ) -> Iterator[VoteChunk]:
        """Votes of all works, in order. Memory does not grow with the number of samples."""
        total = sum(len(work.samples) for work in works)
        done = 0
        for batch in pack(works, self.batch_size):
            started = time.perf_counter()
            votes = self._votes(batch)
            seconds = time.perf_counter() - started
            done += len(votes)
            for piece in batch:
                end = piece.batch_start + piece.length
                share = seconds * piece.length / len(votes)
                yield VoteChunk(piece.work, piece.work_start, votes[piece.batch_start : end], share)
            if progress is not None:
                progress(Progress(task, done, total))

    def _votes(self, batch: list[Piece]) -> Votes:
        """Votes of a packed batch, without its padding. Halves the batch when memory runs out."""
        wanted, positions = noisy_rows(batch)
        length = len(wanted.rows)
        votes: list[Votes] = []
        start = 0
        while start < length:
            rows = _padded(wanted, start, self.batch_size)
            try:
                drawn = self._network.votes(self._noisy(rows, positions))
            except Exception as error:
                if not _out_of_memory(error):
                    raise
                self._halve(error)
                continue
            votes.append(drawn[: length - start])
            start += self.batch_size
        return np.concatenate(votes)

    def _noisy(self, rows: NoisyRows, positions: list[int]) -> Tensor:
        flat = torch.from_numpy(self.inputs[positions].reshape(len(positions), -1)).to(self._network.device)
        noisy = perturb(flat, self._keys[positions], rows, self.noise)
        return noisy.reshape(-1, *self.input_shape)

    def _halve(self, error: Exception) -> None:
        if self.batch_size == 1:
            raise UnusableModel(f"out of memory with a single sample per batch: {error}") from error
        self.batch_size = (self.batch_size + 1) // 2
        if self._network.device.type == "cuda":
            torch.cuda.empty_cache()

    def _probe(self) -> None:
        """Probe at full batch size, so that memory runs out here, before any vote is drawn, if it does at all."""
        while True:
            rows = np.arange(self.batch_size, dtype=np.int64)
            wanted = NoisyRows(rows * 0, rows, np.full_like(rows, Stream.CALIBRATION))
            try:
                probe(self._network, self._noisy(wanted, [0]))
                return
            except UnusableModel:
                raise
            except Exception as error:
                if not _out_of_memory(error):
                    raise UnusableModel(
                        f"the model fails on a batch of {self.batch_size} inputs of shape {tuple(self.input_shape)}: {error}; "
                        "check that these are the inputs it is made for"
                    ) from error
                self._halve(error)


def _padded(wanted: NoisyRows, start: int, batch_size: int) -> NoisyRows:
    """Rows [start, start + batch_size), the last row repeated to fill the batch."""
    chosen = np.minimum(np.arange(start, start + batch_size), len(wanted.rows) - 1)
    return NoisyRows(wanted.rows[chosen], wanted.samples[chosen], wanted.streams[chosen])


def _batch_size(asked: int | None, elements: int, device: torch.device) -> int:
    if asked is not None:
        if asked < 1:
            raise ValueError(f"expected a batch size of at least 1, got {asked}")
        return asked
    fitting = ELEMENTS_PER_BATCH.get(device.type, ELEMENTS_PER_DEVICE_BATCH) // max(1, elements)
    return int(2 ** np.floor(np.log2(np.clip(fitting, 1, LARGEST_DEFAULT_BATCH))))


def _out_of_memory(error: Exception) -> bool:
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    message = str(error).lower()
    return isinstance(error, RuntimeError) and ("out of memory" in message or "can't allocate memory" in message)
