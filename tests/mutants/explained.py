"""Survivors that need no test, each with the reason: `explained_survivors/*.txt`, one line `<name of the mutant>  # <reason>`.

A name that ends in `*` stands for all mutants whose names begin so: for whole functions that only guide a search.
"""

from collections.abc import Collection, Mapping
from pathlib import Path

FOLDER = Path(__file__).with_name("explained_survivors")
MARK = "  # "


def split(line: str) -> tuple[str, str]:
    """Name and remark of a line; the remark may be missing."""
    key, _, remark = line.strip().partition(MARK)
    return key.strip(), remark.strip()


def read(folder: Path = FOLDER) -> dict[str, str]:
    """Reasons by mutant, or by the beginning of its name. Lines that begin with # and empty lines are for people."""
    reasons: dict[str, str] = {}
    for path in sorted(folder.glob("*.txt")):
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


def for_each(reasons: Mapping[str, str], mutants: Collection[str]) -> dict[str, str]:
    """The reason of every mutant that has one."""
    beginnings = {key.removesuffix("*"): reason for key, reason in reasons.items() if key.endswith("*")}
    found = {mutant: reason for mutant in mutants for start, reason in beginnings.items() if mutant.startswith(start)}
    return found | {mutant: reasons[mutant] for mutant in mutants if mutant in reasons}


def stale(reasons: Collection[str], mutants: Collection[str]) -> list[str]:
    """Explanations of what is no mutant any more."""
    known = set(mutants)
    return [
        key
        for key in reasons
        if key not in known and not (key.endswith("*") and any(mutant.startswith(key[:-1]) for mutant in known))
    ]
