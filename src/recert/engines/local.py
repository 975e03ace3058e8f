"""The engine that runs batches in this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from recert.engines.execution import Execution
from recert.sampling import VoteSource, open_source
from recert.sampling.network import Model


@contextmanager
def open_local(model: Model, inputs: Any, *, execution: Execution, **about: Any) -> Iterator[VoteSource]:
    """A source whose batches run here, on the device that the model is on."""
    yield open_source(model, inputs, batch_size=execution.batch_size, device=execution.device, **about)
