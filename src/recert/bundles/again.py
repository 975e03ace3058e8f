"""The whole result once more, from the stored votes of both models: what was planned, counted and bounded, without any model."""

import json
import re

import numpy as np

from recert.bundles.findings import Findings, left_open, right, wrong
from recert.bundles.matching import certified_model
from recert.cache import Cache
from recert.cache.looks import Look
from recert.caching import CachingSource
from recert.certificates import Certificates
from recert.choosing.search import Search, distinct
from recert.errors import MissingVotes, RecertError
from recert.planning import Objective
from recert.recertification.registry import method_named
from recert.recertification.run import run
from recert.recertification.task import Task
from recert.report import Result
from recert.version import __version__

TOLERANCE, SEARCHED = 1e-9, 1e-3
COLUMNS = (
    "prediction",
    "radius",
    "top_lower",
    "runner_up_upper",
    "top_votes",
    "samples",
    "replayed",
    "kept",
    "lost",
    "gained",
    "nobody",
    "forward_passes",
)


def compute_again(result: Result, cache: Cache, votes: str, version: str = __version__) -> Findings:
    """Whether the votes of the original and those that were kept of the changed model give this result, to the last row.

    `version`: of recert, when the bundle was made, for a result that does not say which one made it. Another one may plan otherwise,
    which is no fault of a result.
    """
    claimed = result.certificates
    version = claimed.settings.version or version
    looks = _looks(claimed, cache)
    if not looks:
        return left_open("claims: what was asked for is not recorded in the cache, so that nothing is planned again")
    try:
        with CachingSource.from_store(votes) as source:
            if set(source.digests) != set(claimed.input):
                return left_open("claims: votes were kept of other inputs, too, so that nothing is planned again")
            # The same model may have been looked at with other plans, too: one of them must give the result.
            anew = [each for look in looks if (each := _computed(result, look, cache, source)) is not None]
            anew = [each for each in anew if each.settings.alpha <= claimed.settings.alpha * (1 + TOLERANCE)]
    except MissingVotes:
        return left_open("claims: some of the votes that they rest on were not kept, so that nothing is planned again")
    except (RecertError, ValueError, KeyError, TypeError) as error:
        return wrong(f"claims: the stored votes do not give them: {error}")
    if not anew:
        return left_open("claims: planned looks and families are not planned again")
    differing = min(_differing(claimed, each) for each in anew)
    if differing and version != __version__:
        return left_open(
            f"claims: {differing} rows, which are not planned by recert {__version__} as they were by recert {version}"
        )
    if differing:
        return wrong(f"claims: {differing} rows of the result are not what the stored votes of both models give")
    return right(
        f"claims: all of {len(claimed)} inputs were planned, counted and bounded again from the votes of both models"
    )


def _in_order(anew: Certificates, claimed: Certificates) -> Certificates:
    """The rows of one result in the order of another."""
    row = {digest: i for i, digest in enumerate(anew.input)}
    return anew.take([row[digest] for digest in claimed.input])


def _differing(claimed: Certificates, anew: Certificates) -> int:
    """How many rows differ in what is claimed or counted."""
    same = _in_order(anew, claimed)
    differ = [np.abs(getattr(same, name) - getattr(claimed, name)) > TOLERANCE for name in COLUMNS]
    differ += [np.asarray(getattr(same, name) != getattr(claimed, name)) for name in ("outcome", "method")]
    ours, theirs = same.radius_without_flips, claimed.radius_without_flips
    if theirs is not None and ours is not None:  # not a number where it is not known, and searched without proof
        differ.append(~np.isclose(ours, theirs, rtol=0, atol=SEARCHED, equal_nan=True))
    return int(np.any(differ, axis=0).sum())


def _looks(claimed: Certificates, cache: Cache) -> list[Look]:
    """What may have been asked for, as the cache recorded it. That records are removed or forged shows only in what they give."""
    settings = claimed.settings
    about = certified_model(claimed)

    def fits(look: Look) -> bool:
        asked = json.loads(look.asked)
        alike = (asked.get("alpha"), asked.get("certificate")) == (settings.alpha, settings.certificate)
        return (
            alike
            and look.model == about
            and look.samples == settings.samples
            and asked.get("method") in ("select", settings.method)
        )

    return [look for look in cache.looks.known() if fits(look)]


def _computed(result: Result, look: Look, cache: Cache, source: CachingSource) -> Certificates | None:
    asked, settings = json.loads(look.asked), result.certificates.settings
    if look.planned or look.family > 1:
        return None
    if asked["method"] == "select":
        return _chosen_again(result, look, cache, source)
    task = Task.of(
        source, cache, method_named(asked["method"]), samples=look.samples, alpha=settings.alpha, certificate=settings.certificate,
        objective=_objective(asked["plan"]),
    )  # fmt: skip
    return task.for_every_input(run(task))


def _chosen_again(result: Result, look: Look, cache: Cache, source: CachingSource) -> Certificates:
    """The final of a winner, after a race of its own: what others did in theirs enters by its share of alpha alone."""
    asked = json.loads(look.asked)
    if result.labels is None:
        raise ValueError("there are no labels, by which it was chosen")
    by_digest = dict(zip(result.certificates.input, result.labels.tolist(), strict=True))
    labels = np.array([by_digest[digest] for digest in source.digests], dtype=np.int64)
    digests, positions, rows = distinct(source.digests)
    objective = _objective(asked["metric"])
    if objective is None:
        raise ValueError("it was chosen by no metric")
    if result.certificates.settings.error < asked["of"] * (1 - TOLERANCE):
        raise ValueError(f"its error is that of the whole choice, {asked['of']:g}, and not the one that is stated")
    search = Search(
        cache=cache.about(digests), positions=positions, rows=rows, labels=labels, objective=objective, tolerance=asked["tolerance"],
        alpha=asked["of"], claims=1, samples=look.samples, progress=None,
    )  # fmt: skip
    return search.certified_again(source, round(np.log2(asked["of"] / asked["alpha"])))


def _objective(text: str) -> Objective | None:
    """What a record says of the plan: `None`, `Objective(radius=None)`, `Objective(radius=0.5)`."""
    found = re.fullmatch(r"Objective\(radius=(None|[0-9.e-]+)\)", text)
    if found is None:
        return None
    return Objective(None if found[1] == "None" else float(found[1]))
