"""What runs beside a device: a worker that holds the network and draws votes. It knows nothing of the schedule."""

import platform
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recert.engines.torch_settings import TorchSettings
from recert.errors import UnusableModel, first_line
from recert.models.numerics import Numerics
from recert.sampling import Drawn, Work, check_unchanged, collect, open_source
from recert.votes import Votes


@dataclass(frozen=True)
class Facts:
    """What a worker finds out when it opens the network."""

    classes: int
    numerics: Numerics
    instructions: str
    """Vector instructions of the node's processor. The numerics of a CPU name them too, those of a GPU do not."""
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
    """Opens the network once and draws the works that it is given."""

    def __init__(self, settings: TorchSettings, threads: int) -> None:
        torch.set_num_threads(threads)
        settings.apply()

    def prepare(self, references: list[Any], options: dict[str, Any]) -> Facts | Refusal:
        """Fetch model and inputs and open them.

        They come as references inside a list, which Ray passes on as they are: what goes wrong in fetching them is caught
        here and reported as a Refusal.
        """
        import ray

        try:
            model, inputs = ray.get(references)
            if isinstance(model, torch.nn.Module):
                model = model.to(options["device"])
            self._source = open_source(model, inputs, **options)
        except Exception as error:
            return Refusal(first_line(error), platform.node())
        self._numerics = self._source.numerics
        return Facts(self._source.classes, self._numerics, torch.backends.cpu.get_cpu_capability(), platform.node())

    def draw(self, works: list[Work]) -> Answer:
        """Votes of works. If the network raises, every work is tried alone, so that the others have their votes."""
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

    def changed(self) -> str | None:
        """Why the votes that it drew are not those of one model, if they are not."""
        try:
            check_unchanged(self._source)
        except Exception as error:
            if self._source.numerics != self._numerics:  # memory ran out: no change, and its next answer says so
                return None
            return str(error) if isinstance(error, UnusableModel) else first_line(error)
        return None

    def _alone(self, work: Work) -> Drawn | str:
        try:
            return collect(self._source, [work], "drawing")[0]
        except Exception as error:
            return first_line(error)
