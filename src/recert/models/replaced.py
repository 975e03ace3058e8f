"""Functions of the user's that were put in the place of torch's, of Python's or of another package's, or beside them."""

import types
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from recert.models.trusted import is_installed_code

ALWAYS = (torch, torch.nn.functional, torch.Tensor)
"""What every network computes with, whether its code mentions it or not."""


def replaced(packages: Sequence[types.ModuleType]) -> Iterator[tuple[str, str, types.FunctionType]]:
    """Owner, name and function of each."""
    owners: list[Any] = [*ALWAYS, *packages]
    for owner in dict.fromkeys(owners):
        for name, value in sorted(vars(owner).items()):
            if isinstance(value, types.FunctionType) and not is_installed_code(value):
                yield owner.__name__, name, value
