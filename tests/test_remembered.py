"""What is worked out once and remembered is what would be worked out again."""

import importlib.util
import linecache
import os
from pathlib import Path

import numpy as np
import pytest

import recert
from recert.models.source import code_text
from recert.noise import Stream
from recert.recertification import run

NOISE = recert.Gaussian(0.5)


def stored(votes: np.ndarray) -> recert.StoredVotes:
    return recert.StoredVotes(votes[:, 500:9_000], selection=votes[:, :500], fresh=votes[:, 9_000:], classes=10)


def test_the_first_choice_depends_on_everything_that_it_is_made_of(
    real_votes: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [
        {"samples": 100}, {"samples": 200}, {"samples": 100, "alpha": 0.01}, {"samples": 100, "certificate": "one-sided"},
        {"samples": 100, "plan": "accuracy:0.25"}, {"samples": 100, "plan": "acr,all"}, {"samples": 100, "method": "series"},
    ]  # fmt: skip
    votes = {name: real_votes[name][:24] for name in ("fp32", "bf16")}
    cache = recert.certify(stored(votes["fp32"]), None, noise=NOISE, samples=8_500, selection_samples=500)

    def passes(settings: dict[str, object]) -> list[int]:
        return recert.recertify(stored(votes["bf16"]), None, cache, **settings).forward_passes.tolist()  # type: ignore[arg-type]

    monkeypatch.setattr(run, "_FIRST_CHOICES", {})
    together = [passes(settings) for settings in asked]
    assert len(run._FIRST_CHOICES) == len(asked)
    assert [passes(settings) for settings in asked] == together
    assert len(run._FIRST_CHOICES) == len(asked)
    for settings, found in zip(asked, together, strict=True):
        run._FIRST_CHOICES.clear()
        assert passes(settings) == found


def test_counts_follow_the_votes(tmp_path: Path) -> None:
    votes = np.random.default_rng(0).integers(0, 3, (4, 900))
    source = recert.StoredVotes(votes[:, 100:], selection=votes[:, :100], classes=3)
    for samples in (300, 800):
        cache = recert.certify(source, None, noise=NOISE, samples=samples, selection_samples=100, store=tmp_path / "s")
        expected = np.stack([np.bincount(row, minlength=3) for row in votes[:, 100 : 100 + samples]])
        for _ in range(2):
            counts = cache.counts(Stream.ESTIMATION)
            assert counts.tolist() == expected.tolist()
            counts[:] = 0  # what a caller does with them is no one else's business


def test_the_source_of_a_function_is_read_again_when_its_file_was(tmp_path: Path) -> None:
    file = tmp_path / "some_functions.py"
    file.write_text("def f(x):\n    return x + 1\n")
    spec = importlib.util.spec_from_file_location("some_functions", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert code_text(module.f) == code_text(module.f) == "def f(x):\n    return x + 1"
    file.write_text("def f(x):\n    return x + 2\n")
    os.utime(file, (1, 1))
    linecache.checkcache(str(file))
    assert code_text(module.f).startswith("\0")  # what runs is not what the file says
