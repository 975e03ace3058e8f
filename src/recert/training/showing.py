"""What is said of a training while it runs."""

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass

from recert.training.measuring import Measured

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Epoch:
    """An epoch that is done. `loss` and `accuracy` are those on the noisy training inputs; `measured` comes about ten times in a training."""

    done: int
    total: int
    loss: float
    accuracy: float
    measured: Measured | None = None
    measured_on: str = "test"

    def __str__(self) -> str:
        line = f"epoch {self.done} of {self.total}: loss {self.loss:.3f}, accuracy in training {self.accuracy:.1%}"
        if self.measured is None:
            return line
        found = self.measured
        return (
            f"{line}; {self.measured_on} inputs: accuracy {found.accuracy:.1%}, under noise {found.noisy_accuracy:.1%}, "
            f"ACR at 100 votes {found.acr:.3f}"
        )


EpochCallback = Callable[[Epoch], None]
ShowEpochs = bool | EpochCallback | None


def teller(progress: ShowEpochs) -> EpochCallback:
    """Who hears of epochs: a function, or stderr where somebody looks (`None`), always (`True`) or never. All are in the log."""
    aloud = sys.stderr.isatty() if progress is None else progress is True

    def tell(epoch: Epoch) -> None:
        if epoch.measured is not None:
            log.info("training: %s", epoch)
            if aloud:
                print(epoch, file=sys.stderr, flush=True)
        if callable(progress):
            progress(epoch)

    return tell
