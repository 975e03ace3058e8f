"""The first lines of a page: of every model what it still certifies, what was lost, and what that cost."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recert.report.difference import Difference, Losses, original_of
from recert.report.gains import Gain
from recert.report.results import Result
from recert.report.summary import right_or_certified
from recert.requirements import Requirement

USUAL_RADIUS = 0.5
MOST_NAMED = 4
"""So many models are named in one sentence."""


@dataclass(frozen=True)
class Check:
    """A requirement, and whether it is met; None where it needs labels and there are none."""

    requirement: str
    met: bool | None
    value: float | None

    @property
    def text(self) -> str:
        if self.value is None:
            return f"{self.requirement} (no labels)"
        return f"{self.requirement} (it is {self.value:.3f})"


@dataclass(frozen=True)
class Verdict:
    """One model at one radius."""

    name: str
    radius: float
    certified: int
    abstained: int
    total: int
    passes: float
    flips: int
    replayed: int
    checks: tuple[Check, ...]
    difference: Difference | None
    losses: Losses | None
    gain: Gain | None

    @property
    def passed(self) -> bool | None:
        """Whether all requirements are met; None if there are none, or one could not be checked."""
        met = [check.met for check in self.checks]
        return None if not met or None in met else all(met)

    @property
    def told_apart(self) -> bool:
        """Whether it is known what was lost to the budget and what to the change."""
        return self.losses is not None and self.losses.to_change is not None

    @property
    def mark(self) -> str:
        """The same in two words."""
        if self.passed is not None:
            return "✓ pass" if self.passed else "✗ fail"
        if self.losses is None:
            return "original" if self.difference is None else "certified"
        return f"{self.losses.before - self.losses.lost:,} of {self.losses.before:,} kept"

    @property
    def sentence(self) -> str:
        """What the files say about this model."""
        at = f" at radius {self.radius:g}" if self.radius else ""
        text = f"certified{at} on {self.certified:,} of {self.total:,} inputs"
        if self.losses is None or self.difference is None:
            return f"{text}; {self.abstained:,} abstained; {self._costs}."
        return (
            f"{text} (original {self.losses.before:,}; {_lost(self.losses)}; {self.losses.gained:,} gained); "
            f"{_classes(self.difference)}; {self._flipped}{self._costs}."
        )

    @property
    def _flipped(self) -> str:
        return f"{percent_of(self.flips, self.replayed)} of replayed votes flipped; " if self.replayed else ""

    @property
    def _costs(self) -> str:
        passes = f"{self.passes:,.0f} passes per input"
        if self.gain is not None and self.gain.factor > 1:
            return f"{passes} instead of {'more than ' * self.gain.at_least}{self.gain.needed:,.0f}"
        if self.difference is not None:
            return f"{passes} (original {self.difference.original.certificates.mean_forward_passes:,.0f})"
        return passes


def verdicts(
    results: Sequence[Result], shown: Sequence[int], gains: Sequence[Gain | None], radius: float, require: Sequence[str]
) -> list[Verdict]:
    """Of the results that are shown; `require` is asked of every one of them, beside what is stored with it."""
    return [_verdict(results[i], original_of(results[i], results), gains[i], radius, require) for i in shown]


def _verdict(
    result: Result, original: Result | None, gain: Gain | None, radius: float, require: Sequence[str]
) -> Verdict:
    c = result.certificates
    difference = None if original is None else Difference(result, original)
    texts = dict.fromkeys([*result.requirements, *require])
    return Verdict(
        name=result.name, radius=radius, certified=int((right_or_certified(result) & (c.radius >= radius)).sum()),
        abstained=int((c.prediction < 0).sum()), total=len(c), passes=c.mean_forward_passes,
        flips=int((c.lost + c.gained).sum()), replayed=int(c.replayed.sum()),
        checks=tuple(_check(text, result) for text in texts), difference=difference,
        losses=None if difference is None else difference.losses(radius), gain=gain,
    )  # fmt: skip


def radius_of_verdicts(results: Sequence[Result], radii: Sequence[float], require: Sequence[str]) -> float:
    """At which inputs are counted: what is required, else 0.5 if it is among the radii of the page or those that were decided, else
    the one in their middle."""
    wanted = [Requirement.parse(text).radius for r in results for text in (*require, *r.requirements)]
    asked = [radius for radius in wanted if radius is not None]
    if asked:
        return asked[0]
    # Where inputs were decided one by one, nothing is known of other radii.
    radii = next((r.certificates.settings.at for r in results if r.certificates.settings.at), radii)
    return USUAL_RADIUS if USUAL_RADIUS in radii or not radii else float(np.sort(radii)[(len(radii) - 1) // 2])


def conclusion(found: Sequence[Verdict]) -> str:
    """All models in a sentence: which meet what was required, or how many of the original's inputs each keeps."""
    changed = [verdict for verdict in found if verdict.losses is not None]
    checked = [verdict for verdict in found if verdict.passed is not None]
    if checked:
        failed = [verdict.name for verdict in checked if not verdict.passed]
        if not failed:
            return f"{'All' if len(checked) > 1 else checked[0].name} {'meet' if len(checked) > 1 else 'meets'} what was required."
        met = [verdict.name for verdict in checked if verdict.passed]
        return f"{_some(failed)} not meet what was required{f'; {_some(met)}' if met else ''}."
    before = {verdict.losses.before for verdict in changed if verdict.losses is not None}
    if len(before) != 1:
        return ""
    kept = [(v.losses.before - v.losses.lost, v.name) for v in changed if v.losses is not None]
    at = f" at radius {found[0].radius:g}" if found[0].radius else ""
    text = f"Of the {before.pop():,} inputs that the original certifies{at}, "
    if len(kept) > MOST_NAMED:
        (least, worst), (most, best) = min(kept), max(kept)
        return f"{text}the {len(kept)} changed models keep from {least:,} ({worst}) to {most:,} ({best})."
    return f"{text}{_listed([f'{name} keeps {count:,}' for count, name in kept])}."


def percent_of(count: int, total: int) -> str:
    """Three digits, and 0 only for none.

    >>> percent_of(22, 10_000), percent_of(1, 1_000), percent_of(1, 2), percent_of(0, 5), percent_of(3, 3)
    ('0.22%', '0.10%', '50%', '0%', '100%')
    """
    share = 100 * count / total if total else 0.0
    return (
        "<\u00a00.01%"
        if count and share < 0.005
        else f"{share:.2f}%"
        if 0 < share < 1
        else f"{share:.1f}".removesuffix(".0") + "%"
    )


def _lost(losses: Losses) -> str:
    text = f"{losses.lost:,} lost"
    if not losses.lost or losses.to_budget is None or losses.to_change is None:
        return text
    return f"{text}: {losses.to_budget:,} to the budget, {losses.to_change:,} to the change"


def _classes(difference: Difference) -> str:
    others, both = int(difference.other_class.sum()), difference.certified_by_both
    if not others:
        return "the same class wherever both are certified" if both else "no input is certified by both"
    return f"another class on {others:,} of {both:,} inputs that both certify"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _some(names: Sequence[str]) -> str:
    """The subject of a sentence, with its verb.

    >>> _some(["int8"]), _some(["int8", "bf16"]), _some(["a", "b", "c", "d", "e"])
    ('int8 does', 'int8 and bf16 do', '5 models do')
    """
    subject = _listed(names) if len(names) <= MOST_NAMED else f"{len(names)} models"
    return f"{subject} {'does' if len(names) == 1 else 'do'}"


def _check(text: str, result: Result) -> Check:
    wanted = Requirement.parse(text)
    if result.labels is None and wanted.needs_labels:
        return Check(text, None, None)
    value = wanted.value(result.certificates, result.labels)
    return Check(text, wanted.kept_by(value), value)
