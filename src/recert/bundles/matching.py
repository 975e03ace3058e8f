"""Whether the parts of a bundle belong together: the result, the model file, the cache and the kept votes."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from recert.bundles.claims import in_one_draw
from recert.bundles.findings import Findings, left_open, right, wrong
from recert.cache import Cache, Manifest
from recert.cache.manifest import short_identity
from recert.certificates import Certificates, Settings
from recert.errors import MissingExtra, NotAResult, RecertError, UnusableModel
from recert.models.cards import WEIGHTS, card_of, card_path
from recert.models.digest import digest_of_tensors, identify
from recert.models.identity import ModelIdentity
from recert.models.loading import load_model
from recert.models.saved import expanded_tensors
from recert.noise import Stream
from recert.version import __version__

if TYPE_CHECKING:
    from torch import nn

TOLERANCE = 1e-9
OF_VOTES = ("prediction", "outcome", "top_votes", "samples", "forward_passes", "nobody")
"""Columns of a certification that its votes decide."""
OF_THE_MODEL_ITSELF = ("certify", "sequential")
"""Methods that claim from votes of the model of the cache, and not of a changed one."""
OF_NO_CACHE = ("scratch", "sequential")
"""Methods that claim from votes that were drawn for them alone."""
BY_CACHE = ("series", "few-flips", "joint", "paired", "irs")
"""Methods whose counts of votes for the class are those of the cache, unless fresh votes were drawn."""


def certified_model(result: Certificates) -> ModelIdentity:
    """The identity of the model that certificates are about; NotAResult if they name none."""
    about = result.settings.model
    if not {"weights", "structure"} <= about.keys():
        raise NotAResult("expected a result that says which model it is about, got one that does not; certify anew")
    return ModelIdentity(about["weights"], about["structure"])


def check_model(path: Path, result: Certificates, *, trust: bool) -> "tuple[Findings, nn.Module | None]":
    """Whether the file is the model that the certificates are about; and the model."""
    about = certified_model(result)
    name = path.name
    try:
        model = load_model(path, trust=trust).model
    except MissingExtra:
        raise  # nothing is wrong with the file: it cannot be looked at here
    except UnusableModel as error:
        return _weights_only(path, about, error), None
    except (ValueError, RecertError) as error:
        return wrong(f"{name}: it does not load: {error}"), None
    found = identify(model)
    if found.weights != about.weights:
        return wrong(f"{name}: it is not the model that the certificates are about; its weights are others"), model
    if about.is_old:
        return right(f"model: {name} has the weights that the certificates are about") + left_open(
            "model: what it computes with them, which the old version that made the certificates did not record"
        ), model
    if found.structure != about.structure:
        return (
            wrong(
                f"{name}: it has the weights that the certificates are about, but computes otherwise, or in other code: another version "
                "of the architecture, of recert or of torch, or a card that was exchanged"
            ),
            model,
        )
    return right(
        f"model: {name} is the one that the certificates are about, by its weights and all that decides votes"
    ) + _card(path, found), model


def _card(path: Path, found: ModelIdentity) -> Findings:
    """Whether the card speaks of this model. What it says in words is for people."""
    card = card_of(path)
    if card is None:
        return Findings()
    name = card_path(path).name
    if (card.weights, card.structure) == (found.weights, found.structure):
        return right(f"card: {name} has the digests of this model and file; what it says in words is not looked at")
    versions = {"recert": __version__, "torch": torch.__version__.partition("+")[0]}
    if card.weights == found.weights and any(card.versions.get(each) != now for each, now in versions.items()):
        return left_open(f"card: {name} is of another version of recert or torch, which digested models otherwise")
    return wrong(f"{name}: it has the digests of another model; the card was changed or exchanged")


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
    if settings.method not in OF_NO_CACHE:
        problems += _unsaid(manifest, settings)
    unknown = len(set(result.input) - set(manifest.inputs))
    if unknown:
        problems.append(f"cache: {unknown} inputs of the result are not in it")
    if settings.method in OF_THE_MODEL_ITSELF and certified_model(result) != manifest.model:
        problems.append("cache: it is about another model than the result")
    if problems:
        return Findings(problems=tuple(problems))
    if cache is None:
        return right("cache: its manifest fits the result") + left_open("cache: votes, which are not in the bundle")
    if not in_one_draw(settings):
        return right("cache: its noise, its seed and its inputs are those of the result")
    return _counts(cache.about(list(result.input)), result)


def _unsaid(manifest: Manifest, settings: Settings) -> list[str]:
    """What the cache says of its votes and the result, whose guarantee depends on it, does not."""
    found = []
    if sizes := {n for n in manifest.looks if n <= manifest.samples} - set(settings.looks):
        found.append(
            f"claims: the cached votes were looked at when there were {', '.join(map(str, sorted(sizes)))} of them, which is not said"
        )
    if set(map(short_identity, manifest.same_models)) - set(settings.same_models):
        found.append("claims: some of the cached votes are of a model with other digests, which is not said")
    return found


def check_votes(votes: Manifest, result: Certificates) -> Findings:
    """Whether the votes that were kept are of the model, the noise and the seed of the result."""
    settings = result.settings
    ours = (certified_model(result), settings.noise, settings.seed)
    theirs = (votes.model, votes.noise.spec, votes.seed)
    for name, one, other in zip(("model", "noise", "seed"), ours, theirs, strict=True):
        if one != other:
            return wrong(f"votes: those that were kept are of another {name} than the certificates")
    return Findings()


def _counts(cache: Cache, result: Certificates) -> Findings:
    """Classes and counts of the result against the votes of the cache."""
    settings = result.settings
    if settings.method == "certify":
        anew = cache.certify(alpha=settings.alpha, certificate=settings.certificate)
        bad = np.any([getattr(anew, name) != getattr(result, name) for name in OF_VOTES], axis=0)
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
