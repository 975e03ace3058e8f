"""What compiling a network costs and saves, told before either is spent. The rule of `compile="auto"`: compile if it saves more.

Expected and not measured, since a compiled network can be timed only when it is compiled: see docs/performance.md.
"""

import logging
from dataclasses import dataclass
from typing import Any

from recert.models.inference import PreparedModel
from recert.sampling.network import Network
from recert.sampling.pace import seconds_per_pass

log = logging.getLogger(__name__)

SECONDS_TO_BEGIN = 5.0
SECONDS_PER_LAYER = {"cpu": 0.15, "cuda": 0.5}
"""Of layers that have weights. ResNet-20 has 43: 11 s measured on two CPU cores, 25 s on a GPU's host, with nothing kept from before."""
SHARE_SAVED = {"cpu": 0.13, "cuda": 0.33}
"""Of the time of a pass. ResNet-20: 1,364 passes a second become 1,579 on two CPU cores, 387,000 become 578,000 on an H200."""


@dataclass(frozen=True)
class CompileCost:
    """Seconds that compiling is expected to take, and what so many forward passes take without it."""

    compiling: float
    passes: int
    seconds_per_pass: float
    share_saved: float

    @property
    def uncompiled(self) -> float:
        return self.passes * self.seconds_per_pass

    @property
    def saved(self) -> float:
        return self.uncompiled * self.share_saved

    @property
    def pays(self) -> bool:
        """Whether compiling saves more than it takes.

        >>> [CompileCost(10.0, passes, 1e-3, 0.25).pays for passes in (40_000, 41_000)]
        [False, True]
        """
        return self.saved > self.compiling

    def __str__(self) -> str:
        return (
            f"compiling is expected to take {self.compiling:.0f} s and to save {self.saved:.3g} s of the {self.uncompiled:.3g} s that "
            f"{self.passes:,} forward passes take without it"
        )


def compile_cost(model: PreparedModel, inputs: Any, passes: int, batch_size: int | None) -> CompileCost:
    """What compiling a network costs for so many forward passes of each input. The network is timed as it is."""
    network = Network(model)
    kind = "cuda" if network.device.type == "cuda" else "cpu"
    layers = sum(1 for module in model.modules() if any(True for _ in module.parameters(recurse=False)))
    seconds = seconds_per_pass(network, tuple(inputs.shape[1:]), batch_size)
    compiling = SECONDS_TO_BEGIN + SECONDS_PER_LAYER[kind] * layers
    return CompileCost(compiling, passes * len(inputs), seconds, SHARE_SAVED[kind])


def worth_compiling(
    model: PreparedModel, inputs: Any, passes: int | None, batch_size: int | None, *, asked: bool
) -> bool:
    """Whether to compile; what it costs is logged. Asked for, it is done whatever it costs; else where it pays."""
    if passes is None:
        return asked
    try:
        cost = compile_cost(model, inputs, passes, batch_size)
    except Exception:  # a network that cannot be run on these inputs: it is refused with the reason when it is opened
        return asked
    if asked and not cost.pays:
        log.info("compiled as asked for, though %s; compile='auto' (--compile-auto) leaves it out then", cost)
    else:
        log.info("%s: %s", "compiled" if asked or cost.pays else "not compiled", cost)
    return asked or cost.pays
