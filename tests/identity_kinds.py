"""Kinds of models of which each pair votes differently, and the check that they do not share an identity."""

from collections.abc import Callable

import torch
from torch import nn

from recert.models.digest import identify

Make = Callable[[float], nn.Module]


class Kinds:
    """Functions that make a model for 1 and another one for -1, by their names."""

    def __init__(self) -> None:
        self._make: dict[str, Make] = {}
        self._refused: set[str] = set()

    @property
    def names(self) -> list[str]:
        return list(self._make)

    def told_apart(self, make: Make) -> Make:
        """A decorator: these have two identities."""
        self._make[make.__name__] = make
        return make

    def refused(self, make: Make) -> Make:
        """A decorator: these cannot be looked into, and need a name."""
        self._refused.add(make.__name__)
        return self.told_apart(make)

    def check(self, name: str) -> None:
        make = self._make[name]
        torch.manual_seed(1)
        batch = torch.randn(8, 4)
        # One after the other: some of what they hold is in this process only once.
        answers, identities = zip(*((model(batch), identify(model)) for model in map(make, (1.0, -1.0))), strict=True)
        assert not torch.equal(*answers)
        if name in self._refused:
            assert all(identity.nameless for identity in identities)
        else:
            assert identities[0].nameless is None
            assert identities[0] != identities[1]
            assert identify(make(1.0)) == identities[0]
