"""What votes were drawn with beside the weights. No torch here: caches and results are read without it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

_BETWEEN_VALUES = ", "
PACKAGES = "packages"
"""Under which the versions of installed packages are recorded that a model is made of, beside torch."""


@dataclass(frozen=True)
class Numerics:
    """Everything beside the weights that can change the last bit of a logit: device, dtype, batch_size, torch, ...

    `values` maps each name to all values that were seen, in the order in which they came: usually one, several where votes
    were drawn by runs that differed.
    """

    values: Mapping[str, tuple[str, ...]]

    @classmethod
    def from_text(cls, texts: Mapping[str, str]) -> Self:
        """Numerics as files hold them: a name maps to its values with ", " between them.

        >>> Numerics.from_text({"device": "cuda", "batch_size": "64, 32"})
        Numerics(values={'device': ('cuda',), 'batch_size': ('64', '32')})
        """
        return cls({name: tuple(text.split(_BETWEEN_VALUES)) for name, text in texts.items()})

    def to_text(self) -> dict[str, str]:
        """The form for files: what `from_text` reads, character for character.

        >>> Numerics({"device": ("cuda",), "batch_size": ("64", "32")}).to_text()
        {'device': 'cuda', 'batch_size': '64, 32'}
        """
        return {name: _BETWEEN_VALUES.join(values) for name, values in self.values.items()}

    def text(self, name: str) -> str | None:
        """The values of one name as one text, for messages; None if it was not recorded.

        >>> Numerics.from_text({"batch_size": "64, 32"}).text("batch_size")
        '64, 32'
        """
        return self.to_text().get(name)

    def joined(self, other: Self) -> Self:
        """Both, with every value that was seen once: ours first.

        >>> Numerics.from_text({"device": "cpu", "dtype": "float32"}).joined(Numerics.from_text({"device": "cuda"})).to_text()
        {'device': 'cpu, cuda', 'dtype': 'float32'}
        """
        names = {**self.values, **other.values}
        both = {name: (*self.values.get(name, ()), *other.values.get(name, ())) for name in names}
        return type(self)({name: tuple(dict.fromkeys(values)) for name, values in both.items()})

    def differing(self, other: Self) -> list[str]:
        """Names whose values are not the same in both.

        >>> Numerics.from_text({"device": "cpu", "torch": "2.11"}).differing(Numerics.from_text({"device": "cuda"}))
        ['device', 'torch']
        """
        names = sorted({*self.values, *other.values})
        return [name for name in names if self.values.get(name) != other.values.get(name)]

    def not_seen_in(self, recorded: Self) -> list[str]:
        """Names whose values are not all among those recorded, or that are recorded and missing here.

        When memory runs out batches get smaller, and a store has votes of several batch sizes. It may be continued with any
        size that it has seen, so a subset of what is recorded is no difference.

        >>> recorded = Numerics.from_text({"batch_size": "64, 32"})
        >>> [Numerics.from_text({"batch_size": size}).not_seen_in(recorded) for size in ("32", "16")]
        [[], ['batch_size']]
        """
        return [
            name
            for name in recorded.differing(self)
            if (name not in self.values or not {*self.values[name]} <= {*recorded.values.get(name, ())})
            and not (name == PACKAGES and name not in recorded.values)  # older versions did not record them
        ]

    @property
    def mixed(self) -> list[str]:
        """Names with several values, in alphabetical order.

        >>> Numerics.from_text({"torch": "2.11", "batch_size": "64, 32"}).mixed
        ['batch_size']
        """
        return sorted(name for name, values in self.values.items() if len(values) > 1)

    @property
    def batch_size(self) -> int | None:
        """The batch size of the first votes, or None if there is none on record.

        >>> Numerics.from_text({"batch_size": "64, 32"}).batch_size, Numerics({}).batch_size
        (64, None)
        """
        first = self.values.get("batch_size", ("",))[0]
        return int(first) if first.isdecimal() and int(first) > 0 else None
