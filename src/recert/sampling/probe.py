"""A vote must be a function of (model, input, sample). The probe finds networks for which it is not."""

import torch
from torch import Tensor

from recert.errors import UnusableModel
from recert.sampling.network import Network

PROBE_BATCHES = 2


def probe(network: Network, batch: Tensor) -> None:
    """Refuse a network whose answer varies between calls or depends on the other rows of the batch.

    Two passes if the network can be used: the rows of the first half come again, in a batch whose other rows are four times as
    large. A scale or a statistic that is taken over the batch changes with them; a network that looks at each row by itself
    gives the same.
    """
    half = max(1, len(batch) // 2)
    first = network.answer(batch)
    beside_others = network.answer(torch.cat([batch[:half], 4 * batch[half:]]))
    if _same(first[:half], beside_others[:half]):
        return
    # A third pass, only where something differs, to name the cause: the network's own randomness, or the other rows.
    again = network.answer(batch)
    if not _same(first, again):
        raise UnusableModel(
            f"the model is not deterministic: two passes over the same batch differ in {_share(first, again)} of the rows; "
            "remove its own randomness (dropout, sampling, a denoiser's generator), "
            "or call torch.use_deterministic_algorithms(True)"
        )
    raise UnusableModel(
        f"a row's output depends on the other rows of its batch ({_share(first[:half], beside_others[:half])} of the rows "
        "changed when others did), as with per-tensor dynamic activation scales or batch statistics; "
        "use static scales and running statistics"
    )


def _same(a: Tensor, b: Tensor) -> bool:
    # NaN differs from itself, but a network that answers NaN twice has answered the same.
    return bool(((a == b) | (a.isnan() & b.isnan())).all())


def _share(a: Tensor, b: Tensor) -> str:
    changed = (a != b).flatten(1).any(dim=1) if a.ndim > 1 else a != b
    return f"{changed.float().mean().item():.1%}"
