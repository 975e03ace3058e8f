"""Results made by hand: every number on a page can be worked out from them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from recert.certificates import Certificates, Outcome, Settings
from recert.certificates.claims import Claims
from recert.models.numerics import Numerics
from recert.noise import Gaussian, input_digest
from recert.report import Result

MODEL = {"weights": "a1" * 32, "structure": "b2" * 32}
SETTINGS = Settings(
    method="certify", certificate="one-sided", alpha=0.001, error=0.001, noise="gaussian:0.5", seed=7, samples=1_000,
    selection_samples=100, model=MODEL, numerics=Numerics.from_text({"dtype": "float32", "device": "cpu"}),
)  # fmt: skip
MakeResult = Callable[..., Result]


def images(count: int) -> np.ndarray:
    """Pure noise: the hardest pictures to compress."""
    return np.random.default_rng(5).random((count, 3, 32, 32), dtype=np.float32)


@pytest.fixture(scope="session")
def make_result() -> MakeResult:
    """A result on the first `count` of the images above, with radii from random bounds; its labels are known."""

    def make(
        name: str, count: int = 40, *, seed: int = 0, passes: int = 1_100, labelled: bool = True, **changes: object
    ) -> Result:
        rng = np.random.default_rng(seed)
        lower = rng.uniform(0.3, 0.999, count)
        certified = lower > 0.5
        outcome = np.where(certified, Outcome.CERTIFIED.value, Outcome.NO_MAJORITY.value).astype(object)
        labels = np.random.default_rng(1).integers(0, 10, count)  # the same for every result
        prediction = np.where(certified, (labels + (rng.random(count) < 0.2)) % 10, -1)
        settings = replace(SETTINGS, **changes)
        again = settings.method not in ("certify", "scratch")
        replayed = rng.integers(50, 90, count) if again else np.zeros(count, dtype=int)
        claims = Claims(outcome, prediction, Gaussian(0.5).radius(lower), lower, 1 - lower)
        certificates = Certificates.build(
            [input_digest(image) for image in images(count)], claims, settings, Gaussian(0.5),
            top_votes=(lower * 1_000).astype(int), samples=1_000, replayed=replayed, lost=rng.integers(0, 4, count) * again,
            forward_passes=replayed + 3 if again else passes, seconds=0.25,
        )  # fmt: skip
        return Result(
            name, certificates, labels if labelled else None, np.arange(count) * 20, f"recert certify -o {name}.parquet"
        )

    return make  # fmt: skip


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """The same images as data that a spec can name, with other inputs around them, so that positions differ."""

    def write(count: int) -> Path:
        path = tmp_path_factory.mktemp("pictures") / "images.npz"
        labels = np.random.default_rng(1).integers(0, 10, count + 3)
        np.savez(path, inputs=np.concatenate([np.zeros((3, 3, 32, 32), np.float32), images(count)]), labels=labels)
        return path

    return write
