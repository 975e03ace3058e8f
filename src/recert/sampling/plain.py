"""What a network answers without noise: no part of any claim, but it tells whether the network knows noise."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from recert.sampling.network import Network

_ROWS = 64


def answers_without_noise(
    model: nn.Module, inputs: NDArray[np.float32], batch_size: int | None = None
) -> NDArray[np.int64]:
    """The class of each input; -1 where a logit is not finite."""
    network, size = Network(model), min(batch_size or _ROWS, _ROWS)
    found = [
        network.winners(torch.from_numpy(inputs[i : i + size]).to(network.device)) for i in range(0, len(inputs), size)
    ]
    return torch.cat(found).cpu().numpy().astype(np.int64)
