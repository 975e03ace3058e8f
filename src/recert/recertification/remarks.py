"""What a reader of a re-certification would otherwise wonder about, in sentences. No claim depends on them."""

from dataclasses import asdict, replace

import numpy as np

from recert.certificates import Certificates, Outcome
from recert.recertification.limits import limited_by_samples
from recert.recertification.task import Task


def with_remarks(task: Task, result: Certificates, *more: str) -> Certificates:
    """The result, a row for each row of the task, with its remarks."""
    said: tuple[str, ...] = more
    if not task.method.votes_to_choose():  # else it owes nothing to the cache
        said = (_same_model(task, result), _limited(task, result), _left_out(result), *more)
    return replace(result, settings=replace(result.settings, remarks=tuple(filter(None, said))))


def _same_model(task: Task, result: Certificates) -> str:
    if result.settings.model == asdict(task.cache.manifest.model):
        return (
            "This is the same model as the one that the cache was made with (weights and structure are identical): its own "
            "certificates are larger (cache.certificates, or recert cache export)."
        )
    replays, flips = result.replayed.sum(), result.lost.sum() + result.gained.sum()
    if replays and not flips:
        return f"No vote flipped in {replays:,} replays, as if this were the same model as the cache's; but it is identified as another one."
    return ""


def _limited(task: Task, result: Certificates) -> str:
    top_votes = task.cached_counts[np.arange(len(result)), task.selection.classes]
    limited = result.certified & limited_by_samples(top_votes, task.terms.samples, result.forward_passes)
    if not limited.any():
        return ""
    return (
        f"Limited by samples on {limited.sum()} of {len(result)} inputs: there (nearly) all votes agree, so that any method shows what so "
        "many votes can show, and only more samples enlarge the radius."
    )


def _left_out(result: Certificates) -> str:
    left_out = int((result.outcome == Outcome.LEFT_OUT_BY_PLAN).sum())
    if not left_out:
        return ""
    return (
        f"{left_out} of {len(result)} inputs were left out by the plan: that is the budget's doing, not the model's. More samples give "
        "them votes, and so does a plan that leaves none out, acr,all."
    )
