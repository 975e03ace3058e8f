"""Names that users give to what they register: noises, methods, approximations, engines."""

import re
from collections.abc import Container


def check_new_name(name: str, taken: Container[str]) -> None:
    """ValueError unless a name may be registered. What is built in is never replaced: results name it.

    >>> check_new_name("laplace", {"gaussian"})
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
        raise ValueError(f"expected a name of small letters, digits and '-', got {name!r}")
    if name in taken:
        raise ValueError(f"expected a name of your own, got {name!r}, which is taken; choose another")
