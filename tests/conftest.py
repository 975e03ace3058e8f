"""Shared by all tests: one torch thread per worker, and classifiers whose truth is known in closed form."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("recert", deadline=None)  # a busy machine is no failure
settings.load_profile("recert")


@pytest.fixture(scope="session")
def test_data() -> Path:
    """Votes and published logs that are not part of the project; tests that need them skip without them."""
    folder = os.environ.get("RECERT_TEST_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("RECERT_TEST_DATA does not name a folder with votes and published logs")
    return Path(folder)


@pytest.fixture(autouse=True, scope="session")
def plain_terminal() -> Iterator[None]:
    """Commands print alike wherever the tests run: wide, without colours."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "160")
        patch.setenv("TERM", "dumb")
        yield
