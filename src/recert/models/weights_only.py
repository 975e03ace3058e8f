"""A guard around libraries that call torch.load themselves. No torch here."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def weights_only_loads() -> Iterator[None]:
    """Make every torch.load inside a library the weights-only one: downloaded and cached files are not trusted either."""
    variable = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(variable)
    os.environ[variable] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before
