"""Certify a slow network by way of a fast one: the proxy draws the many votes, the network itself a few percent.

The proxy is an approximation of the network, and the network is "the modified model" of re-certification, which knows no
direction: the bounds hold for any two networks. Nothing is claimed of the proxy. All of alpha is spent on the claim about
the network; the votes of the proxy only make it strong. What a bad proxy costs is radius, never soundness.
"""

import os
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from recert.approximations import Calibration, approximate
from recert.cache import Cache
from recert.certificates import Certificates
from recert.certification import certify, family_members
from recert.engines import Execution, chosen_execution, open_votes
from recert.keeping import Keep
from recert.models.inference import PRECISIONS, PreparedModel, prepare
from recert.noise import Noise, checked_seed
from recert.recertification import recertify
from recert.sampling import ShowProgress, is_vote_source, rows_sent
from recert.sampling.inputs import checked_inputs
from recert.sampling.network import Model, Network

USUAL_TRANSFER = 0.1
"""Forward passes of the network itself, relative to those of the proxy: enough for radii within 1 or 2% of certifying it directly."""
CALIBRATION_INPUTS = 256


@dataclass(frozen=True)
class ProxyCertification:
    """Certificates of the model that was named, and the votes of the proxy behind them."""

    certificates: Certificates
    cache: Cache
    """Votes of the proxy. Its own certificates are about the proxy."""
    proxy: str


def certify_by_proxy(
    model: Model,
    inputs: Any,
    *,
    proxy: str | nn.Module,
    noise: Noise,
    samples: int = 100_000,
    transfer: int | None = None,
    selection_samples: int | None = None,
    alpha: float = 0.001,
    seed: int = 0,
    certificate: str = "two-sided",
    family: str | int | None = None,
    store: str | os.PathLike[str] | None = None,
    identity: str | None = None,
    keep: Keep = True,
    execution: Execution | None = None,
    device: str | torch.device | None = None,
    batch_size: int | None = None,
    progress: ShowProgress = None,
) -> ProxyCertification:
    """Certify a model with votes of a faster network, and few of its own: as `certify`, for less.

    For each input on its own, with probability at least 1 - alpha, the prediction of the smoothed model is constant within
    the radius: the claim is about `model`, whatever the proxy is. `proxy` is an approximation such as "fp16" or "int8", or a
    model; it draws the `samples`, which are kept in `store`. `transfer` is the mean number of the model's own forward passes
    per input, a tenth of `samples` unless given; they are kept as `recertify` keeps those of a changed model. Other arguments
    are those of `certify`.
    """
    if is_vote_source(model):
        raise ValueError("expected a model with a proxy, got votes; a proxy is made of the model itself")
    chosen = chosen_execution(execution, device=device, batch_size=batch_size, progress=progress)
    images = checked_inputs(inputs)
    members, seed = family_members(family, images), checked_seed(seed)
    prepared = chosen.prepared(model, images, samples)
    Network(prepared, chosen.device)  # so that a model that cannot be certified is refused before the proxy has drawn
    made_of = model if chosen.runtime == "onnxruntime" else prepared
    stand_in, name = proxy_of(made_of, proxy, images, noise, seed)
    # Both networks are prepared by now. The device is the model's: a proxy in onnxruntime is on the CPU.
    as_it_is = replace(chosen, precision=None, compile=False, channels_last=True, runtime="torch", device=None)
    cache = certify(
        stand_in, images, noise=noise, samples=samples, selection_samples=selection_samples, alpha=alpha / members, seed=seed,
        certificate=certificate, store=store, execution=as_it_is,
    )  # fmt: skip
    if transfer is None:
        transfer = max(100, round(USUAL_TRANSFER * samples))
    # A batch of its own size: the proxy's may suit the model badly, and a compiled model knows one size.
    with open_votes(
        prepared, images, noise=noise, seed=seed, classes=cache.manifest.classes, identity=identity,
        execution=replace(as_it_is, device=chosen.device),
    ) as source:  # fmt: skip
        certificates = recertify(
            source, images, cache, samples=transfer, alpha=alpha, family=family, keep=keep, progress=chosen.progress
        )
    drawn = cache.certificates
    about = {
        "made by": name, "passes per input": f"{drawn.mean_forward_passes:.0f}", "seconds": f"{drawn.seconds.sum():.3g}",
        **asdict(cache.manifest.model),
    }  # fmt: skip
    return ProxyCertification(
        replace(certificates, settings=replace(certificates.settings, proxy=about, rows_sent=rows_sent(source))),
        cache,
        name,
    )


def proxy_of(
    model: Model, proxy: str | nn.Module, inputs: np.ndarray, noise: Noise, seed: int
) -> tuple[nn.Module, str]:
    """The network that draws the many votes, and what to call it.

    Quantisation is calibrated on the inputs themselves under noise of its own stream, which no vote sees. So other inputs
    make another proxy; pass one that was calibrated on training data, as the command line does, to extend or merge stores.
    """
    if isinstance(proxy, nn.Module):
        return proxy, getattr(proxy, "_made_by", type(proxy).__name__)
    if not isinstance(model, nn.Module):
        raise ValueError(f"expected a torch module with proxy={proxy!r}, got a function; pass the proxy as a model")
    if isinstance(model, PreparedModel):
        chosen = model.inference
        if proxy in PRECISIONS:
            made = prepare(model.network, precision=proxy, channels_last=chosen.channels_last, compile=chosen.compiled)
            return made, str(made.inference)
        model = model.network
    calibration = Calibration(inputs[:CALIBRATION_INPUTS], noise=noise, seed=seed)
    return approximate(model, proxy, calibration=calibration, example_input=inputs[:2]).model, proxy
