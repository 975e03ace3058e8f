"""The first lines of a page: of every model what it still certifies, what was lost, and what that cost."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recert.report.difference import Difference, Losses, original_of
from recert.report.gains import Gain
from recert.report.input_table import down
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
        return f"{self.requirement} (no labels)" if self.value is None else f"{self.requirement} (it is {self._shown})"

    @property
    def compared(self) -> str:
        """The number that is compared, and the limit."""
        wanted = Requirement.parse(self.requirement)
        name = wanted.metric if wanted.radius is None else f"{wanted.metric} at {wanted.radius:g}"
        sign = wanted.comparison.replace(">=", "≥").replace("<=", "≤")
        return f"{name.replace('acr', 'ACR')}: {'no labels' if self.value is None else self._shown}, limit {sign}\u00a0{wanted.limit:g}"

    @property
    def _shown(self) -> str:
        assert self.value is not None
        wanted = Requirement.parse(self.requirement)
        # Average radii are rounded down, as everywhere on the page.
        shown = down(self.value) if wanted.metric == "acr" else round(self.value, 3)
        # More digits where three would seem to meet the limit, or to miss it.
        return f"{shown:.3f}" if wanted.kept_by(shown) == self.met else f"{self.value:.9g}"


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
    is_reference: bool
    """Whether others are compared with it."""

    @property
    def passed(self) -> bool | None:
        """Whether all requirements are met; None if there are none, or one could not be checked."""
        met = [check.met for check in self.checks]
        return None if not met or None in met else all(met)

    @property
    def kept(self) -> int:
        """Of the inputs that the original certifies; of all, where there is no original."""
        return self.certified if self.losses is None else self.losses.before - self.losses.lost

    @property
    def parts(self) -> list[tuple[str, str, int]]:
        """Of the bar, for a model that is compared: a class of style, a name and a count, those that are not 0."""
        if self.losses is None:
            return [("kept", "certified", self.certified)] if self.is_reference and self.certified else []
        lost = [("few", "lost", self.losses.lost)]
        if self.losses.to_change is not None and self.losses.to_samples is not None:
            lost = [
                ("change", "lost to the change", self.losses.to_change),
                ("few", "lost to too few samples", self.losses.to_samples),
            ]
        return [part for part in [("kept", "still certified", self.kept), *lost] if part[2]]

    @property
    def said(self) -> str:
        """In a few words, for who cannot see the table."""
        return f"certified{_at(self.radius)} on {self.certified:,} of {self.total:,} inputs"

    @property
    def other_class(self) -> str:
        """What is said of inputs that both certify, but not for the same class; nothing if there are none."""
        if self.difference is None or not (others := int(self.difference.other_class.sum())):
            return ""
        return f"{self.name} predicts another class than the original on {others:,} of {self.difference.certified_by_both:,} inputs that both certify."


@dataclass(frozen=True)
class Shape:
    """Which columns the table of verdicts has: none that would be empty, and none of zeros alone."""

    before: int | None
    """So many inputs all changed models could keep; None if that is not one number."""
    widest: int
    """So many inputs are the longest bar."""
    checked: bool
    compared: bool
    told_apart: bool
    gained: bool
    flips: bool
    anew: bool


def shape(found: Sequence[Verdict]) -> Shape:
    losses = [verdict.losses for verdict in found if verdict.losses is not None]
    before = {each.before for each in losses}
    return Shape(
        before=next(iter(before)) if len(before) == 1 else None, widest=max(before, default=0), checked=any(verdict.checks for verdict in found),
        compared=bool(losses), told_apart=any(each.to_change is not None for each in losses),
        gained=any(each.gained for each in losses), flips=any(verdict.replayed for verdict in found),
        anew=any(verdict.gain is not None for verdict in found),
    )  # fmt: skip


def verdicts(
    results: Sequence[Result], shown: Sequence[int], gains: Sequence[Gain | None], radius: float, require: Sequence[str]
) -> list[Verdict]:
    """Of the results that are shown; `require` is asked of every one of them, beside what is stored with it."""
    originals = {i: original_of(results[i], results) for i in shown}
    return [
        _verdict(results[i], originals[i], gains[i], radius, require, any(results[i] is o for o in originals.values()))
        for i in shown
    ]


def _verdict(
    result: Result,
    original: Result | None,
    gain: Gain | None,
    radius: float,
    require: Sequence[str],
    is_reference: bool,
) -> Verdict:
    c = result.certificates
    difference = None if original is None else Difference(result, original)
    texts = dict.fromkeys([*result.requirements, *require])
    return Verdict(
        name=result.name, radius=radius, certified=int((right_or_certified(result) & (c.radius >= radius)).sum()),
        abstained=int((c.prediction < 0).sum()), total=len(c), passes=c.mean_forward_passes,
        flips=int((c.lost + c.gained).sum()), replayed=int(c.replayed.sum()),
        checks=tuple(_check(text, result) for text in texts), difference=difference,
        losses=None if difference is None else difference.losses(radius), gain=gain, is_reference=is_reference,
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
    """What a reader wants to know first: which models meet what was required, and what was lost, to the change and to too few samples."""
    return " ".join(filter(None, (_met(found), _what_was_lost(found))))


def _met(found: Sequence[Verdict]) -> str:
    checked = [verdict for verdict in found if verdict.passed is not None]
    met, failed = ([verdict.name for verdict in checked if verdict.passed is passed] for passed in (True, False))
    if not checked:
        return ""
    if not failed:
        return f"{'All' if len(met) > 1 else met[0]} {'meet' if len(met) > 1 else 'meets'} what was required."
    return f"{_some(failed)} not meet what was required{f'; {_some(met)}' if met else ''}."


def _what_was_lost(found: Sequence[Verdict]) -> str:
    changed = [(verdict, verdict.losses) for verdict in found if verdict.losses is not None]
    if len(found) == 1 and not changed:
        return f"{found[0].certified:,} of {found[0].total:,} inputs are certified{_at(found[0].radius)}; {found[0].abstained:,} abstained."
    if len({losses.before for _, losses in changed}) != 1:
        return ""
    if not changed[0][1].before:
        return f"The original certifies no input{_at(found[0].radius)}: there is nothing to lose."
    text = f"Of the {changed[0][1].before:,} inputs certified{_at(found[0].radius)} for the original, "
    names = [verdict.name for verdict, _ in changed]
    change = [losses.to_change for _, losses in changed if losses.to_change is not None]
    few = [losses.to_samples for _, losses in changed if losses.to_samples is not None]
    if len(change) < len(changed):
        return f"{text}{_span([losses.lost for _, losses in changed], names)} are lost."
    what = f"the change to {names[0]}" if len(names) == 1 else "the changes"
    verb = "loses" if len(names) == 1 else "lose"
    left = f"another {_span(few)}, which more samples may bring back" if any(few) else "none"
    return f"{text}{what} {verb} {_span(change, names)}; too few samples {left}."


def _span(counts: Sequence[int], names: Sequence[str] = ()) -> str:
    """From the least to the most, with the names of the first that have so many.

    >>> _span([2, 0, 4], ["a", "b", "c"]), _span([2, 3]), _span([2, 2], ["a", "b"]), _span([1], ["a"])
    ('0 (b) to 4 (c)', '2 to 3', '2 each', '1')
    """
    if len(counts) == 1:
        return f"{counts[0]:,}"
    least, most = min(counts), max(counts)
    if least == most:
        return f"{least:,} each"
    named = [f"{count:,} ({names[counts.index(count)]})" if names else f"{count:,}" for count in (least, most)]
    return " to ".join(named)


def _at(radius: float) -> str:
    return f" at radius {radius:g}" if radius else ""


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
