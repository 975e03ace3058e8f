"""Several results on one page are about the same inputs, in the same order, with the same labels."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from recert.errors import RecertError
from recert.report.results import Result


class DifferentInputs(RecertError):
    """Results are about different inputs: report them on pages of their own."""


def align(results: Sequence[Result]) -> list[Result]:
    """The results in the order of the first one's inputs, with distinct names; labels known to one are known to all.

    Changed models come first, then what they are compared with, baselines last, by what they cost.
    """
    # Others than baselines keep their order, since sorting is stable.
    results = sorted(
        _with_short_names(results), key=lambda r: (not r.is_changed, r.is_baseline * r.certificates.mean_forward_passes)
    )
    first = results[0]
    # The rank of every input of the first result. Another's rows, sorted and taken by these ranks, are in the order of the first.
    # Stable sorts pair repeated inputs in the order in which they occur.
    order = np.argsort(np.argsort(first.certificates.input.astype(str), kind="stable"), kind="stable")
    aligned = [first]
    for other in results[1:]:
        _check_same_inputs(first, other)
        if (other.certificates.input != first.certificates.input).any():
            other = other.take(np.argsort(other.certificates.input.astype(str), kind="stable")[order])
        aligned.append(other)
    return _with_labels(_with_distinct_names(aligned))


def _check_same_inputs(first: Result, other: Result) -> None:
    ours, theirs = (Counter(result.certificates.input.tolist()) for result in (first, other))
    lacking, extra = list((ours - theirs).elements()), list((theirs - ours).elements())
    if not lacking and not extra:
        return
    n = len(first.certificates)
    problems = [f"lacks {len(lacking)} of the {n} inputs of {first.name} ({_some(lacking)})"] if lacking else []
    problems += [f"has {len(extra)} that {first.name} does not have ({_some(extra)})"] if extra else []
    raise DifferentInputs(
        f"expected results of the same inputs, but {other.name} {' and '.join(problems)}; "
        "certify the same inputs, or write a page for each"
    )


def _some(digests: list[str]) -> str:
    return ", ".join(digest[:12] for digest in digests[:3]) + (", ..." if len(digests) > 3 else "")


def _with_short_names(results: Sequence[Result]) -> list[Result]:
    """Of results that are named by their models: what all share is left out, and the original is called so."""
    original = next((r for r in results if r.is_original and r.model is not None and r.name == r.model), None)
    if original is None or not any(r.is_changed for r in results):
        return list(results)
    shared = f"{original.model}, "
    return [
        replace(r, name="original" if r is original else r.name.removeprefix(shared) if r.name == r.model else r.name)
        for r in results
    ]


def _with_distinct_names(results: list[Result]) -> list[Result]:
    """Names that occur twice get their method and budget behind them, baselines before others, then a number."""
    for describe in (_baseline_with_method, _with_method, lambda result, i: f"{result.name} #{i + 1}"):
        names = Counter(result.name for result in results)
        results = [replace(r, name=describe(r, i)) if names[r.name] > 1 else r for i, r in enumerate(results)]
    return results


def _baseline_with_method(result: Result, i: int) -> str:
    return _with_method(result, i) if result.is_baseline else result.name


def _with_method(result: Result, _: int) -> str:
    return (
        f"{result.name}, {result.certificates.settings.method}, {result.certificates.mean_forward_passes:,.0f} passes"
    )


def _with_labels(results: list[Result]) -> list[Result]:
    labelled = [result for result in results if result.labels is not None]
    for result in labelled[1:]:
        differ = np.flatnonzero(result.labels != labelled[0].labels)
        if len(differ):
            raise DifferentInputs(
                f"expected one label for each input, but {result.name} and {labelled[0].name} differ in {len(differ)} of them, "
                f"the first at row {differ[0]}; write them anew from the same data"
            )
    if not labelled:
        return results
    positions = next((r.positions for r in results if r.positions is not None), None)
    return [replace(result, labels=labelled[0].labels, positions=positions) for result in results]
