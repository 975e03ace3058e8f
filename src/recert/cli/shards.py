"""recert certify --shard I/N: one of N stores that together hold every input once."""

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recert.data import Dataset


@dataclass(frozen=True)
class Shard:
    """The `number`-th of `total` shards, counted from 1."""

    number: int
    total: int

    def of(self, data: "Dataset") -> "Dataset":
        """Inputs number, number + total, number + 2 total, ... of the data, counted from 1."""
        if self.total > len(data):
            raise ValueError(f"expected at most {len(data)} shards of {len(data)} inputs, got {self.total}")
        # Every N-th input instead of a block: data sets are often sorted by class, and shards should take about equally long.
        mine = slice(self.number - 1, None, self.total)
        labels = None if data.labels is None else data.labels[mine]
        return replace(data, inputs=data.inputs[mine], labels=labels, indices=data.indices[mine])

    def store(self, store: str) -> str:
        """A store of its own."""
        return f"{store.rstrip('/')}-shard-{self.number}-of-{self.total}"


def parse_shard(text: str | None) -> Shard | None:
    """A shard from its spec.

    >>> parse_shard("2/8")
    Shard(number=2, total=8)
    """
    if text is None:
        return None
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text, re.ASCII)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise ValueError(f"expected a shard like 1/8, up to 8/8, got {text!r}")
    return Shard(int(match[1]), int(match[2]))


def plain_name(spec: str) -> str:
    """A spec without folders: names of a user's folders are private, and a cache may be published.

    >>> plain_name("cifar10:/home/me/cifar"), plain_name("lab.nets:small@runs/a/weights.safetensors")
    ('cifar10:cifar', 'lab.nets:small@weights.safetensors')
    """
    return re.sub(r"[^:@]*[/\\]", "", spec.rstrip("/\\"))
