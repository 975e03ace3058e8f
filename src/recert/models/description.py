"""Short digests of the parts of a model, so that a message can say in what two models differ."""

import hashlib
from collections.abc import Callable
from typing import Any

from torch import nn

from recert.models.digest import weights_of
from recert.models.identity import Description
from recert.models.inference import PreparedModel
from recert.models.structure import part_digests
from recert.models.walk_modules import unwrapped

MOST_PARTS = 128
"""So many are kept: of a network with more, one for each layer, or for each block of layers."""
LONGEST_NAME = 120
DIGITS = 12


def describe(model: nn.Module | Callable[..., Any], name: str | None = None) -> Description:
    """The name of a model (the class's, if it was given none) and digests of its weights, attributes and code, layer by layer."""
    model = unwrapped(model)
    run_as = None
    if isinstance(model, PreparedModel):
        run_as, model = str(model.inference), unwrapped(model.network)
    called = name or (type(model).__name__ if isinstance(model, nn.Module) else str(getattr(model, "__name__", "")))
    if not isinstance(model, nn.Module):
        return Description(_plain(called))
    parts: dict[str, str] = {} if name is None else {"its name": name}
    parts |= {} if run_as is None else {"how it is run": run_as}
    found = {**_weights(model), **part_digests(model)}
    return Description(
        _plain(called), {_plain(key): _plain(value) for key, value in {**parts, **_fewer(found)}.items()}
    )


def _weights(model: nn.Module) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for text, content in weights_of(model):
        digest = hashlib.sha256(text.encode() + content).hexdigest()[:DIGITS]
        found.setdefault(text.rpartition(":")[0].rpartition(":")[0], []).append(digest)
    return {name: _joined(digests) for name, digests in found.items()}


def _fewer(parts: dict[str, str]) -> dict[str, str]:
    """At most `MOST_PARTS`: those of one layer together where there are more, then those of layers with a common beginning."""
    depth, few = max((name.count(".") for name in parts), default=0), parts
    while len(few) > MOST_PARTS and depth >= 0:
        together: dict[str, list[str]] = {}
        for name, digest in parts.items():
            layer = ".".join(name.split(".")[:depth]) or "the network"
            together.setdefault(layer if name.count(".") >= depth else name, []).append(f"{name} {digest}")
        few = {layer: _joined(each) for layer, each in together.items()}
        depth -= 1
    return few


def _joined(digests: list[str]) -> str:
    """One digest for several, in whatever order."""
    only = digests[0].rpartition(" ")[2] if len(digests) == 1 else None
    return only or hashlib.sha256(" ".join(sorted(digests)).encode()).hexdigest()[:DIGITS]


def _plain(text: str) -> str:
    """As a manifest holds it: short and printable."""
    return text.encode("unicode_escape").decode("ascii")[:LONGEST_NAME]
