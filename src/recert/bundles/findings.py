"""What a check found: lines about what is wrong, what was checked, and what was not."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Findings:
    """One line for each."""

    problems: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    not_checked: tuple[str, ...] = ()

    def __add__(self, other: "Findings") -> "Findings":
        return Findings(
            self.problems + other.problems, self.checked + other.checked, self.not_checked + other.not_checked
        )


def wrong(line: str) -> Findings:
    return Findings(problems=(line,))


def right(line: str) -> Findings:
    return Findings(checked=(line,))


def left_open(line: str) -> Findings:
    return Findings(not_checked=(line,))
