"""Registries: names that users give to noises, methods, approximations and engines, and functions that are named and not imported."""

import importlib
import re
from collections.abc import Callable, Container
from functools import cache
from typing import Any


def check_new_name(name: str, taken: Container[str]) -> None:
    """ValueError unless a name may be registered. What is built in is never replaced: results name it.

    >>> check_new_name("laplace", {"gaussian"})
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise ValueError(f"expected a name of small letters, digits and '-', got {name!r}")
    if name in taken:
        raise ValueError(f"expected a name of your own, got {name!r}, which is taken; choose another")


@cache
def function_named(name: str) -> Callable[..., Any]:
    """The function of a "module:function" text, imported when it is first needed.

    >>> function_named("math:floor")(1.5)
    1
    """
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found
