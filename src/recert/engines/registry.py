"""The engines by name: who runs the batches of a model."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from recert.engines.execution import Execution
from recert.noise import Noise
from recert.registration import check_new_name, function_named
from recert.sampling import VoteSource, open_source
from recert.sampling.network import Model

OpenEngine = Callable[..., AbstractContextManager[VoteSource]]
"""Called with (model, inputs, noise=, seed=, classes=, identity=, execution=); gives a source, and lets go of it at the end."""

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
) -> Iterator[VoteSource]:
    """Votes of a model under noise, drawn as chosen; or a source of votes as it is."""
    if isinstance(model, VoteSource):
        chosen = [name for name in ("precision", "compile", "workers", "ray_address") if getattr(execution, name)]
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
    with open_engine(
        execution.prepared(model, inputs) if callable(model) else model, inputs, noise=noise, seed=seed, classes=classes,
        identity=identity, execution=execution,
    ) as source:  # fmt: skip
        yield source
