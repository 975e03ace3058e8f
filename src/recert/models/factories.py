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


def call_factory(module: str, name: str) -> Any:
    """What `module:name` makes: a function or class called without arguments, or a network itself.

    It may make a function from a batch to logits or labels instead of a network. An object that is called with a batch, such as a
    `recert.Remote`, is that function itself.
    """
    with _current_directory_importable():
        found = _attribute(_imported(module), module, name)
        itself = isinstance(found, nn.Module) or _is_called_with_a_batch(found)
        made = found if itself else _called(found, f"{module}:{name}")
    if not callable(made):
        raise UnusableModel(
            f"expected {module}:{name} to make a torch.nn.Module, or a function from a batch to logits, got {type(made).__name__}; "
            "return the network itself"
        )
    return made


def _is_called_with_a_batch(found: Any) -> bool:
    """An object that is no function and no class, and is called with one argument: a function with settings, not a factory."""
    if inspect.isroutine(found) or inspect.isclass(found) or not callable(found):
        return False
    try:
        inspect.signature(found).bind(None)
    except (TypeError, ValueError):
        return False
    return True


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
            f"expected a factory that is called without arguments, got {spec} ({error}); give them defaults, or, if it is itself the function from a "
            "batch to logits, name a factory that returns it, or a recert.Remote of it"
        ) from None
    except ValueError:
        pass  # a built-in without a signature: the call itself shows whether it needs arguments
    try:
        return factory()
    except SystemExit as stop:
        raise UnusableModel(f"{spec} ended the program instead of returning a network; name a factory") from stop
