"""Optional packages: imported when something needs them, with one error that says how to get them."""

import importlib
from typing import Any

from recert.errors import MissingExtra


def import_extra(module: str, *, extra: str, purpose: str) -> Any:
    """A module of an optional dependency, or MissingExtra. `extra` is its name in `pip install 'recert[extra]'`.

    >>> import_extra("json", extra="none", purpose="reading JSON").__name__
    'json'
    """
    try:
        return importlib.import_module(module)
    # A torchvision that was built for another torch fails with a RuntimeError about a missing operator.
    except (ImportError, RuntimeError) as error:
        raise MissingExtra(
            f"{purpose} needs {module.partition('.')[0]}, which could not be imported ({error}); "
            f"install it with: pip install 'recert[{extra}]'"
        ) from error
