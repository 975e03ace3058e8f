"""The engines by name: who runs the batches of a model."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import numpy as np
import torch

from recert.engines.execution import AUTO, Execution
from recert.models.exported_program import as_module
from recert.models.numerics import Numerics
from recert.noise import Noise
from recert.registration import check_new_name, function_named
from recert.sampling import VoteSource, is_vote_source, open_source
from recert.sampling.inputs import checked_inputs
from recert.sampling.network import Model, Network
from recert.units import warn_of_units

OpenEngine = Callable[..., AbstractContextManager[VoteSource]]
"""Called with (model, inputs, noise=, seed=, classes=, identity=, execution=); gives a source, and lets go of it at the end."""


class KnownBatches(Protocol):
    """Batch sizes that were found fastest before, by how a network computes."""

    def size(self, numerics: Numerics | None) -> int | None: ...

    def note(self, numerics: Numerics) -> None: ...


# Named and not imported: Ray is optional, and importing it takes a second.
_ENGINES: dict[str, str | OpenEngine] = {
    "local": "recert.engines.local:open_local",
    "ray": "recert.engines.ray_source:open_ray",
}


def register_engine(name: str, open_engine: OpenEngine) -> None:
    """Make an engine known by name in this process, for `Execution(engine=NAME)`."""
    check_new_name(name, _ENGINES)
    _ENGINES[name] = open_engine


@contextmanager
def open_votes(
    model: Model | VoteSource,
    inputs: Any,
    *,
    noise: Noise,
    seed: int,
    classes: int | None = None,
    identity: str | None = None,
    execution: Execution,
    passes: int | None = None,
    batches: KnownBatches | None = None,
) -> Iterator[VoteSource]:
    """Votes of a model under noise, drawn as chosen; or a source of votes as it is.

    `passes` tells about how many are to be drawn of an input: compile="auto" compiles where that is worth it. `batches` knows batch sizes that
    were found before, and is told of one that is found now.
    """
    if is_vote_source(model):
        chosen = [
            name
            for name in ("precision", "compile", "workers", "ray_address")
            if getattr(execution, name) not in (None, False, AUTO)
        ]
        if chosen:
            raise ValueError(
                f"expected no {chosen[0]} with a source of votes, which is run as it was made, got one; leave it out"
            )
        yield open_source(model, inputs, noise=noise, seed=seed, classes=classes)
        return
    engine = _ENGINES.get(execution.engine)
    if engine is None:
        raise ValueError(f"expected engine to be one of {', '.join(_ENGINES)}, got {execution.engine!r}")
    open_engine = function_named(engine) if isinstance(engine, str) else engine
    if isinstance(inputs, np.ndarray | torch.Tensor):
        warn_of_units(checked_inputs(inputs), stacklevel=4)
    model = as_module(model)
    if callable(model):
        model = execution.prepared(model, inputs, passes)
        if batches is not None and execution.batch_size is None:
            execution = execution.with_batch_size(batches.size(_numerics(model, execution)))
    with open_engine(
        model, inputs, noise=noise, seed=seed, classes=classes, identity=identity, execution=execution
    ) as source:
        if batches is not None and execution.batch_size is None:
            batches.note(source.numerics)
        yield source


def _numerics(model: Model, execution: Execution) -> Numerics | None:
    """How a model computes in this process. Elsewhere it is not known before it is opened there."""
    return Network(model, execution.device).numerics(1) if execution.engine == "local" else None
