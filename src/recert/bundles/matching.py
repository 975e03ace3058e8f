"""Whether the parts of a bundle belong together: the result, the model file, the cache and the kept votes."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from recert.bundles.claims import in_one_draw
from recert.bundles.findings import Findings, left_open, right, wrong
from recert.cache import Cache, Manifest
from recert.certificates import Certificates
from recert.errors import RecertError, UnusableModel
from recert.models.cards import WEIGHTS, card_of
from recert.models.digest import digest_of_tensors, identify
from recert.models.identity import ModelIdentity
from recert.models.loading import load_model
from recert.models.saved import expanded_tensors
from recert.noise import Stream

if TYPE_CHECKING:
    from torch import nn

TOLERANCE = 1e-9
BY_CACHE = ("series", "few-flips", "joint", "paired", "irs")
"""Methods whose counts of votes for the class are those of the cache, unless fresh votes were drawn."""


def check_model(path: Path, result: Certificates, *, trust: bool) -> "tuple[Findings, nn.Module | None]":
    """Whether the file is the model that the certificates are about; and the model."""
    about = ModelIdentity(**{name: result.settings.model[name] for name in ("weights", "structure")})
    name = path.name
    try:
        model = load_model(path, trust=trust).model
    except UnusableModel as error:
        return _weights_only(path, about, error), None
    except (ValueError, RecertError) as error:
        return wrong(f"{name}: it does not load: {error}"), None
    found = identify(model)
    if found.weights != about.weights:
        return wrong(f"{name}: it is not the model that the certificates are about; its weights are others"), model
    if found.structure != about.structure and not about.is_old:
        return (
            wrong(
                f"{name}: it has the weights that the certificates are about, but computes otherwise, or in other code: another version "
                "of the architecture, of recert or of torch, or a card that was exchanged"
            ),
            model,
        )
    return right(
        f"model: {name} is the one that the certificates are about, by its weights and all that decides votes"
    ), model


def _weights_only(path: Path, about: ModelIdentity, error: UnusableModel) -> Findings:
    """A network that is made by code of others: its tensors can be compared without running that code."""
    try:
        card = card_of(path)
        if card is None or card.kind != WEIGHTS:
            return wrong(f"{path.name}: it does not load: {error}")
        digest = digest_of_tensors(expanded_tensors(path, card))
    except RecertError as damaged:
        return wrong(f"{path.name}: it does not load: {damaged}")
    if digest != about.weights:
        return wrong(f"{path.name}: it is not the model that the certificates are about; its weights are others")
    return right(f"model: {path.name} has the weights that the certificates are about") + left_open(
        f"model: what it computes with them, since that is code ({card.architecture}), which --trust runs"
    )


def check_cache(cache: Cache | None, manifest: Manifest, result: Certificates) -> Findings:
    """Whether the cache is the one that the result was made from. Without its votes (`cache` None), its manifest alone."""
    settings = result.settings
    problems = [
        f"cache: it has {name} {theirs}, the result {ours}"
        for name, ours, theirs in (
            ("noise", settings.noise, manifest.noise.spec),
            ("seed", settings.seed, manifest.seed),
        )
        if ours != theirs
    ]
    unknown = len(set(result.input) - set(manifest.inputs))
    if unknown:
        problems.append(f"cache: {unknown} inputs of the result are not in it")
    if settings.method == "certify" and settings.model != asdict(manifest.model):
        problems.append("cache: it is about another model than the result")
    if problems:
        return Findings(problems=tuple(problems))
    if cache is None:
        return right("cache: its manifest fits the result") + left_open("cache: votes, which are not in the bundle")
    if not in_one_draw(settings):
        return right("cache: it is the one that the result came from") + left_open(
            "cache: its votes, which were not counted again"
        )
    return _counts(cache.about(list(result.input)), result)


def _counts(cache: Cache, result: Certificates) -> Findings:
    """Classes and counts of the result against the votes of the cache."""
    settings = result.settings
    if settings.method == "certify":
        anew = cache.certify(alpha=settings.alpha, certificate=settings.certificate)
        bad = (anew.prediction != result.prediction) | (anew.top_votes != result.top_votes)
        bad |= result.top_lower > anew.top_lower + TOLERANCE
        bad |= result.runner_up_upper < anew.runner_up_upper - TOLERANCE
        if bad.any():
            return wrong(f"claims: {int(bad.sum())} rows of the result are not what the votes of the cache give")
        return right(f"claims: all of {len(result)} inputs follow from the votes of the cache, bounded again")
    estimation, top = cache.counts(Stream.ESTIMATION), cache.counts(Stream.SELECTION).argmax(axis=1)
    rows = np.arange(len(top))
    # Fresh votes are the model's own, and their class may be; what is replayed is about the cached class.
    replayed = np.isin(result.method.astype(str), BY_CACHE) & (result.replayed > 0)
    bad = replayed & (result.top_votes != estimation[rows, top])
    bad |= replayed & (result.prediction >= 0) & (result.prediction != top)
    bad |= replayed & (result.samples != cache.manifest.samples)
    if bad.any():
        return wrong(
            f"claims: {int(bad.sum())} rows of the result have other classes or counts than the votes of the cache"
        )
    return right(
        f"claims: classes and cached counts of {int(replayed.sum())} inputs are those of the votes of the cache"
    )
