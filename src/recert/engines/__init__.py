"""Where batches run: in this process, or on a Ray cluster. The same votes, bit for bit."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def on_engine(engine: str, model: Any, inputs: Any, **options: Any) -> Iterator[Any]:
    """What to certify in place of a model, so that it runs on an engine: "local" is the model itself.

    Options are those of `RaySource`.
    """
    if engine == "local":
        yield model
        return
    from recert.engines.ray_source import RaySource

    with RaySource(model, inputs, **options) as source:
        yield source
