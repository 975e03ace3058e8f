"""Votes for requests: a few inputs now and then, and the same network every time. Nothing is stored."""

import numpy as np
import torch
from numpy.typing import NDArray

from recert.noise import Noise, Stream
from recert.noise.stream import NoisyRows, perturb
from recert.sampling.network import Network
from recert.sampling.probe import probe
from recert.votes import count_votes

Ints = NDArray[np.int64]
PROBE_ROWS = 8


def request_counts(
    network: Network,
    inputs: NDArray[np.float32],
    keys: NDArray[np.uint64],
    stream: Stream,
    samples: int,
    *,
    noise: Noise,
    rows: int,
) -> Ints:
    """Votes by class of every input (inputs x classes), `samples` each, in batches of at most `rows` rows of all inputs together."""
    flat = torch.from_numpy(inputs.reshape(len(inputs), -1)).to(network.device)
    of_row, of_sample = np.repeat(np.arange(len(inputs)), samples), np.tile(np.arange(samples), len(inputs))
    wanted = NoisyRows(of_row, of_sample, np.full(len(of_row), int(stream), dtype=np.int64))
    drawn = []
    for start in range(0, len(of_row), rows):
        noisy = perturb(flat, keys, wanted.part(start, rows), noise).reshape(-1, *inputs.shape[1:])
        batch = network.empty_batch(len(noisy), inputs.shape[1:]).copy_(noisy)
        drawn.append(network.winners(batch).cpu().numpy())
    votes = network.votes(np.concatenate(drawn)).reshape(len(inputs), samples)
    return np.stack([count_votes(each, network.classes) for each in votes])


def probe_for_requests(network: Network, inputs: NDArray[np.float32], noise: Noise) -> None:
    """Refuse a network whose answer to one request depends on the others in its batch, or that answers twice differently."""
    rows = np.arange(PROBE_ROWS)
    flat = torch.from_numpy(inputs.reshape(len(inputs), -1)).to(network.device)
    wanted = NoisyRows(rows % len(inputs), rows, np.full(PROBE_ROWS, int(Stream.CALIBRATION), dtype=np.int64))
    noisy = perturb(flat, np.zeros(len(inputs), dtype=np.uint64), wanted, noise).reshape(-1, *inputs.shape[1:])
    probe(network, network.empty_batch(PROBE_ROWS, inputs.shape[1:]).copy_(noisy))
