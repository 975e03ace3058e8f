"""What a run found: a table by package, and a file of survivors that can be run again or copied to explained_survivors."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.explained import MARK, split

LIVED = ("survived", "not covered")


@dataclass(frozen=True)
class Found:
    """Results by mutant, the line of each, and the reasons that were given for survivors."""

    results: Mapping[str, str]
    lines: Mapping[str, int]
    reasons: Mapping[str, str]

    def having(self, result: str, *, explained: bool = False) -> list[str]:
        return [key for key, r in self.results.items() if r == result and (key in self.reasons) == explained]

    @property
    def unexplained(self) -> list[str]:
        return [key for result in LIVED for key in self.having(result)]

    @property
    def explained_yet_killed(self) -> list[str]:
        return [key for key in self.reasons if self.results.get(key) in ("killed", "timeout")]

    def table(self) -> str:
        """One row per package: how many mutants, and what became of them."""
        counts = {package: self._counts(package) for package in sorted({_package(key) for key in self.results})}
        counts["all"] = sum(counts.values(), Counter())
        head = f"{'package':<18}{'mutants':>8}{'killed':>8}{'timeout':>8}{'survived':>9}{'explained':>10}{'not appl.':>10}{'killed':>8}"
        return "\n".join([head, *(_row(package, count) for package, count in counts.items())])

    def _counts(self, package: str) -> Counter[str]:
        mine = {key: result for key, result in self.results.items() if _package(key) == package}
        counts = Counter(mine.values())
        counts["explained"] = sum(result in LIVED and key in self.reasons for key, result in mine.items())
        counts["mutants"] = len(mine)
        return counts

    def write(self, path: Path) -> None:
        """Survivors under headings; each with its line, which an explanation replaces."""
        parts = [
            "# Survivors of `python -m tests.mutants`. Kill them, or copy lines to explained_survivors with a reason."
        ]
        for result in (*LIVED, "not applicable", "error"):
            keys = self.having(result)
            parts += [f"\n# {result}, not explained: {len(keys)}", *(f"{k}{MARK}line {self.lines[k]}" for k in keys)]
        explained = [key for result in LIVED for key in self.having(result, explained=True)]
        parts += [f"\n# survived, explained: {len(explained)}", *(f"{k}{MARK}{self.reasons[k]}" for k in explained)]
        path.write_text("\n".join(parts) + "\n", encoding="utf-8")


def _package(key: str) -> str:
    return key.split()[0].split("/")[0]


def _row(package: str, count: Counter[str]) -> str:
    survived = count["survived"] + count["not covered"]
    killed = count["killed"] + count["timeout"]
    share = f"{killed / (killed + survived):.1%}" if killed + survived else "-"
    return (
        f"{package:<18}{count['mutants']:>8}{count['killed']:>8}{count['timeout']:>8}{survived:>9}"
        f"{count['explained']:>10}{count['not applicable']:>10}{share:>8}"
    )


def keys_in(path: Path) -> list[str]:
    """The mutants that an earlier report lists."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [split(line)[0] for line in lines if line.strip() and not line.startswith("#")]
