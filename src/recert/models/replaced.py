"""Functions of the user's that were put in the place of torch's, of Python's or of another package's, or beside them."""

import functools
import types
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from recert.models.trusted import is_installed, is_installed_code

ALWAYS = (torch, torch.nn.functional, torch.Tensor)
"""What networks compute with, whether their own code mentions it or not."""
COMPUTING = ("torch.nn.functional", "an operator of tensors")
"""Of these everything counts: torch's own code calls it, by names or by `+` and `[]`, which no code mentions."""
OF_PRINTING = ("__repr__", "__str__", "__format__")


def replaced(packages: Sequence[types.ModuleType]) -> Iterator[tuple[str, str, Any]]:
    """Owner, name and function of each."""
    owners: list[Any] = [*ALWAYS, *packages]
    known: dict[Any, bool] = {}  # whose it is, by module or by kind: there are thousands of functions
    for owner in dict.fromkeys(owners):
        found = [(name, value) for name, value in list(vars(owner).items()) if _is_the_users(value, known)]
        for name, value in sorted(found, key=lambda item: item[0]):
            operator = owner is torch.Tensor and name.startswith("__") and name not in OF_PRINTING
            yield "an operator of tensors" if operator else owner.__name__, name, value


def _is_the_users(value: Any, known: dict[Any, bool]) -> bool:
    kind = type(value)
    if kind is types.FunctionType:
        module = value.__globals__.get("__name__")
        if module not in known:
            known[module] = not is_installed_code(value)
        return known[module]
    if kind is functools.partial:
        return not (isinstance(value.func, types.FunctionType) and is_installed_code(value.func))
    if kind not in known:
        called = any("__call__" in vars(each) for each in kind.__mro__)
        known[kind] = called and not issubclass(kind, type | types.ModuleType) and not is_installed(kind)
    return known[kind]
