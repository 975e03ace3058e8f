"""Candidates by rule: `prune:0.1..0.6/0.1+int8` is six of them. No torch here."""

import re
from decimal import Decimal
from itertools import product

MOST = 500
_NUMBER = r"\d+(?:\.\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})/({_NUMBER})")


def candidates(text: str) -> list[str]:
    """Specs between commas, with every range `FIRST..LAST/STEP` written out; commas in brackets belong to a spec.

    >>> candidates("int8[!conv1,!fc], prune:0.1..0.3/0.1+int8")
    ['int8[!conv1,!fc]', 'prune:0.1+int8', 'prune:0.2+int8', 'prune:0.3+int8']
    """
    specs = [spec.strip() for spec in re.split(r",(?![^\[\]]*\])", text)]
    return [each for spec in specs if spec for each in _written_out(spec)]


def _written_out(spec: str) -> list[str]:
    # The texts between ranges, and in turn the three numbers of each.
    pieces = _RANGE.split(spec)
    ranges = [_numbers(pieces[i], pieces[i + 1], pieces[i + 2], spec) for i in range(1, len(pieces), 4)]
    many = 1
    for each in ranges:
        many *= len(each)
    if many > MOST:
        raise ValueError(f"expected at most {MOST} candidates of a rule, got {many} of {spec!r}; take larger steps")
    between = pieces[::4]
    return [
        "".join(text for pair in zip(between, (*chosen, ""), strict=True) for text in pair)
        for chosen in product(*ranges)
    ]


def _numbers(first: str, last: str, step: str, spec: str) -> list[str]:
    """All numbers of a range. Decimal: 0.1 + 0.1 + 0.1 is 0.3 here."""
    start, end, by = Decimal(first), Decimal(last), Decimal(step)
    if by <= 0 or end < start:
        raise ValueError(
            f"expected a range like 0.1..0.6/0.1, upwards in steps above 0, got {first}..{last}/{step} in {spec!r}"
        )
    many = int((end - start) / by) + 1
    if many > MOST:
        raise ValueError(f"expected at most {MOST} candidates of a rule, got {many} of {spec!r}; take larger steps")
    return [f"{(start + i * by).normalize():f}" for i in range(many)]
