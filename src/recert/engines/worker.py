"""What runs beside a device: a worker that holds the network and answers jobs. It knows nothing of who asks."""

import platform
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recert.engines.torch_settings import TorchSettings
from recert.errors import first_line
from recert.sampling import Drawn, Work, collect, open_source
from recert.votes import Votes


@dataclass(frozen=True)
class Facts:
    """What a worker finds out when it opens the network."""

    classes: int
    numerics: dict[str, str]
    instructions: str
    """Vector instructions of the processor, which the numerics of a CPU do not tell."""
    node: str


@dataclass(frozen=True)
class Refusal:
    """Why a worker cannot work."""

    reason: str
    node: str


@dataclass(frozen=True)
class Answer:
    """Votes of a job's works, end to end; of a work in `failures` there are none."""

    votes: Votes
    seconds: NDArray[np.float64]
    failures: dict[int, str] = field(default_factory=dict)
    out_of_memory: bool = False
    """The batch had to be made smaller, so the votes are not those of the other workers."""


class Worker:
    """Opens the network once and draws what it is asked for."""

    def __init__(self, settings: TorchSettings, threads: int) -> None:
        torch.set_num_threads(threads)
        settings.apply()

    def prepare(self, boxed: list[Any], options: dict[str, Any]) -> Facts | Refusal:
        """Fetch model and inputs (references in a box, so that what goes wrong is caught here) and open them."""
        import ray

        try:
            model, inputs = ray.get(boxed)
            if isinstance(model, torch.nn.Module):
                model = model.to(options["device"])
            self._source = open_source(model, inputs, **options)
        except Exception as error:
            return Refusal(first_line(error), platform.node())
        self._numerics = self._source.numerics
        return Facts(self._source.classes, self._numerics, torch.backends.cpu.get_cpu_capability(), platform.node())

    def draw(self, works: list[Work]) -> Answer:
        """Votes of works. If the network raises, every work is tried alone, so that one cannot spoil the others."""
        drawn: list[Drawn | str]
        try:
            drawn = [*collect(self._source, works, "drawing")]
        except Exception:
            drawn = [self._alone(work) for work in works]
        failures = {i: result for i, result in enumerate(drawn) if isinstance(result, str)}
        good = [result for result in drawn if not isinstance(result, str)]
        return Answer(
            np.concatenate([result.votes for result in good]) if good else np.zeros(0, np.uint8),
            np.array([result.seconds for result in good]),
            failures,
            out_of_memory=self._source.numerics != self._numerics,
        )

    def _alone(self, work: Work) -> Drawn | str:
        try:
            return collect(self._source, [work], "drawing")[0]
        except Exception as error:
            return first_line(error)
