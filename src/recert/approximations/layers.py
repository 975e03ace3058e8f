"""Layers by name: `int8[!conv1,!linear]`, `prune:0.5[layer3.*]`. No torch here."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

_FORM = re.compile(r"(?P<step>[^\[\]]*)(?:\[(?P<patterns>[^\[\]]*)\])?")
_PATTERN = re.compile(r"!?[\w.*?-]+")


@dataclass(frozen=True)
class LayerPatterns:
    """Which layers an approximation is limited to, and which it leaves out. A pattern is a name with `*` and `?`, or the name of a
    part, which stands for all layers in it."""

    only: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    def __str__(self) -> str:
        return ",".join((*self.only, *(f"!{pattern}" for pattern in self.left_out)))

    def chosen(self, layers: Sequence[str], spec: str) -> frozenset[str]:
        """The names that are meant; a ValueError that lists all if a pattern means none, or if nothing is left.

        >>> patterns = LayerPatterns(("layer3.*",), ("layer3.1",))
        >>> sorted(patterns.chosen(["conv1", "layer3.0.conv1", "layer3.1.conv1"], "int8[layer3.*,!layer3.1]"))
        ['layer3.0.conv1']
        """
        for pattern in (*self.only, *self.left_out):
            if not _matching(pattern, layers):
                raise ValueError(
                    f"expected patterns that name layers, got {pattern!r} in {spec!r}, which names none; the layers are {', '.join(layers)}"
                )
        inside = frozenset(layers) if not self.only else frozenset().union(*(_matching(p, layers) for p in self.only))
        left = inside.difference(*(_matching(pattern, layers) for pattern in self.left_out))
        if not left:
            raise ValueError(
                f"expected patterns that leave a layer, got {spec!r}, which leaves none of {', '.join(layers)}"
            )
        return left


def split_patterns(spec: str) -> tuple[str, LayerPatterns | None]:
    """A step and its patterns, None if it is for all layers.

    >>> split_patterns("int8[!conv1,!fc]")
    ('int8', LayerPatterns(only=(), left_out=('conv1', 'fc')))
    >>> split_patterns("prune:0.5")
    ('prune:0.5', None)
    """
    found = _FORM.fullmatch(spec)
    if found is None or found["patterns"] is None:
        return spec, None
    patterns = [pattern.strip() for pattern in found["patterns"].split(",")]
    if not all(_PATTERN.fullmatch(pattern) for pattern in patterns):
        raise ValueError(
            f"expected names of layers between commas, with * and ? in them and ! before those to leave out, got {spec!r}; for "
            "example int8[!conv1,!layer3.*]"
        )
    only = tuple(pattern for pattern in patterns if not pattern.startswith("!"))
    left_out = tuple(pattern[1:] for pattern in patterns if pattern.startswith("!"))
    return found["step"], LayerPatterns(only, left_out)


def _matching(pattern: str, layers: Collection[str]) -> frozenset[str]:
    return frozenset(name for name in layers if fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*"))
