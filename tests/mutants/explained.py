"""Survivors that need no test, each with the reason: `explained.txt`, one line `<name of the mutant>  # <reason>`."""

from collections.abc import Collection
from pathlib import Path

FILE = Path(__file__).with_name("explained.txt")
MARK = "  # "


def split(line: str) -> tuple[str, str]:
    """Name and remark of a line; the remark may be missing."""
    key, _, remark = line.strip().partition(MARK)
    return key.strip(), remark.strip()


def read(path: Path = FILE) -> dict[str, str]:
    """Reasons by mutant. Lines that begin with # and empty lines are for people."""
    if not path.exists():
        return {}
    reasons = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        key, reason = split(line)
        if not reason:
            raise ValueError(f"expected '<mutant>{MARK}<reason>' at {path.name}:{number}, got no reason")
        if key in reasons:
            raise ValueError(f"expected every mutant once, got {key!r} again at {path.name}:{number}")
        reasons[key] = reason
    return reasons


def stale(reasons: Collection[str], mutants: Collection[str]) -> list[str]:
    """Explanations of what is no mutant any more."""
    known = set(mutants)
    return [key for key in reasons if key not in known]
