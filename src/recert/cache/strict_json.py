"""JSON from untrusted files: text that two parsers could read differently is refused."""

import json
from typing import Any


def parse(data: bytes) -> Any:
    """The value of a JSON text in UTF-8. NaN, Infinity, a key that comes twice and very deep nesting are ValueErrors.

    >>> parse(b'{"a": 1, "a": 2}')
    Traceback (most recent call last):
    ...
    ValueError: the key 'a' comes twice
    """
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Python's parser takes the last of two equal keys, others take the first: a file could mean two things.
    unique = dict(pairs)
    if len(unique) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} comes twice")
    return unique


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")
