"""Votes that are kept, at the command line: recertify, compare and select share them, and say what was spent now."""

import re
from pathlib import Path

import pytest

from tests.cache.stores import files
from tests.test_cli import SMALL, recert

CHANGED = [*SMALL, "-a", "prune:0.1"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    run = recert("certify", *SMALL, "--samples", "400", "--store", str(tmp_path / "run"))
    assert run.returncode == 0, run.stderr
    return tmp_path / "run"


def spent(*arguments: str) -> str:
    run = recert(*arguments)
    assert run.returncode in (0, 3), run.stderr
    return " ".join(run.stderr.split())


def test_commands_say_what_was_spent_now(store: Path) -> None:
    call = ["recertify", *CHANGED, "--store", str(store), "--samples", "50"]
    assert "kept from before" not in spent(*call)
    assert ": 0 made now, the others kept from before" in spent(*call)
    sweep = [
        "compare",
        *CHANGED,
        "--store",
        str(store),
        "--methods",
        "auto",
        "--budgets",
        "50",
        "--baseline-budgets",
        "50",
    ]
    first = re.search(r"([\d,]+) forward passes per input were made", spent(*sweep))
    assert first is not None
    assert int(first[1]) > 50
    assert "no forward pass was made: all votes had been kept" in spent(*sweep)
    choose = ["select", *SMALL, "--store", str(store), "--candidates", "prune:0.1", "--tolerance", "1"]
    assert "kept from before" in spent(*choose)
    assert ": 0 made now" in spent(*choose)


def test_votes_are_kept_elsewhere_or_not_at_all(store: Path, tmp_path: Path) -> None:
    call = ["recertify", *CHANGED, "--store", str(store), "--samples", "50"]
    beside, elsewhere = tmp_path / "run.replays", tmp_path / "votes"
    for _ in range(2):
        assert "kept from before" not in spent(*call, "--no-keep-votes")
    assert not beside.exists()
    spent(*call, "--votes", str(elsewhere))
    assert ": 0 made now" in spent(*call, "--votes", str(elsewhere))
    assert not beside.exists()
    both = recert(*call, "--votes", str(elsewhere), "--no-keep-votes")
    assert both.returncode == 1
    assert "expected no --votes with --no-keep-votes" in both.stderr


def test_kept_votes_do_not_disturb_the_cache(store: Path, tmp_path: Path) -> None:
    before = files(store)
    shown = recert("cache", "show", str(store))
    spent("recertify", *CHANGED, "--store", str(store), "--samples", "50")
    assert recert("cache", "show", str(store)).stdout == shown.stdout
    assert recert("cache", "verify", str(store)).returncode == 0
    assert {name: data for name, data in files(store).items() if not name.startswith("_look-")} == before
    (kept,) = (tmp_path / "run.replays").iterdir()
    assert recert("cache", "verify", str(kept)).returncode == 0
    assert "scattered" in (found := recert("cache", "show", str(kept))).stdout + found.stderr
    assert recert("cache", "merge", str(tmp_path / "merged"), str(store)).returncode == 0
    pytest.importorskip("cryptography")
    key = tmp_path / "key.pem"
    assert recert("cache", "keygen", str(key)).returncode == 0
    assert recert("cache", "sign", str(store), "--key", str(key)).returncode == 0
    spent("recertify", *CHANGED, "--store", str(store), "--samples", "60")
    signed = recert("cache", "verify", str(store), "--public-key", f"{key}.pub")
    assert signed.returncode == 0, signed.stderr
