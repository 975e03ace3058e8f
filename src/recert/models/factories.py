"""Networks of the user's own: `package.module:factory`."""

import importlib
import inspect
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from recert.errors import UnusableModel


def call_factory(module: str, name: str) -> nn.Module:
    """What `module:name` makes: a function or class called without arguments, or a network itself."""
    with _current_directory_importable():
        found = _attribute(_imported(module), module, name)
        made = found if isinstance(found, nn.Module) else _called(found, f"{module}:{name}")
    if not isinstance(made, nn.Module):
        raise UnusableModel(
            f"expected {module}:{name} to make a torch.nn.Module, got {type(made).__name__}; "
            "return the network itself, or pass a callable to recert.certify from Python"
        )
    return made


@contextmanager
def _current_directory_importable() -> Iterator[None]:
    """`python -m` finds modules in the current directory, an installed command does not. Last in the path, so that it hides no other."""
    here = os.getcwd()
    sys.path.append(here)
    try:
        yield
    finally:
        sys.path.remove(here)


def _imported(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise UnusableModel(f"importing {module} failed: {error}; install what it needs") from error
        raise ValueError(
            f"expected an importable module, got {module!r}, which is not found; install it, "
            "or run from the directory that holds it"
        ) from None


def _attribute(module: Any, path: str, name: str) -> Any:
    if not hasattr(module, name):
        raise ValueError(f"expected a factory, got {path}:{name}, but {path} has no {name!r}; check its name")
    return getattr(module, name)


def _called(factory: Any, spec: str) -> Any:
    if not callable(factory):
        raise ValueError(f"expected {spec} to be a function or a network, got {type(factory).__name__}")
    try:
        inspect.signature(factory).bind()
    except TypeError as error:
        raise ValueError(
            f"expected a factory that is called without arguments, got {spec} ({error}); give them defaults"
        ) from None
    except ValueError:
        pass  # a built-in without a signature: the call itself shows whether it needs arguments
    try:
        return factory()
    except SystemExit as stop:
        raise UnusableModel(f"{spec} ended the program instead of returning a network; name a factory") from stop
