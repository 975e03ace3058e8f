"""Shared by all tests: one torch thread per worker, and classifiers whose truth is known in closed form."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("recert", deadline=None)  # a busy machine is no failure
settings.load_profile("recert")


@pytest.fixture(scope="session")
def real_votes() -> dict[str, np.ndarray]:
    """Votes of a noise-trained ResNet-20 and of four changes of it on 64 images of CIFAR-10 (tests/real_votes/make.py)."""
    with np.load(Path(__file__).parent / "real_votes" / "votes.npz") as votes:
        return {name: votes[name].astype(np.int64) for name in votes}


@pytest.fixture(autouse=True, scope="session")
def plain_terminal() -> Iterator[None]:
    """Commands print alike wherever the tests run: wide, without colours."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "160")
        patch.setenv("TERM", "dumb")
        yield
