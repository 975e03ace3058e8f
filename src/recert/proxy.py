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
from recert.models.inference import PRECISIONS, PreparedModel, prepare
from recert.noise import Noise
from recert.recertification import recertify
from recert.sampling import ProgressCallback, open_source
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
    noise: Noise,
    proxy: str | nn.Module,
    transfer: int | None,
    samples: int,
    alpha: float,
    seed: int,
    family: str | None,
    family_size: int | None,
    batch_size: int | None,
    device: str | torch.device | None,
    identity: str | None,
    progress: ProgressCallback | None,
    store: str | os.PathLike[str] | None,
    **options: Any,
) -> ProxyCertification:
    """The work of `certify(..., proxy=...)`; `transfer` is the mean number of the model's own passes per input."""
    images = checked_inputs(inputs)
    members = family_members(family, family_size, images)
    Network(model, device)  # so that a model that cannot be certified is refused before the proxy has drawn
    stand_in, name = proxy_of(model, proxy, images, noise, seed)
    cache = certify(
        stand_in, images, noise=noise, samples=samples, alpha=alpha / members, seed=seed, store=store, progress=progress,
        batch_size=batch_size, **options,
    )  # fmt: skip
    if transfer is None:
        transfer = max(100, round(USUAL_TRANSFER * samples))
    # A batch of its own size: the proxy's may suit the model badly, and a compiled model knows one size.
    source = open_source(
        model, images, noise=noise, seed=seed, batch_size=batch_size, device=device, classes=cache.manifest.classes, identity=identity
    )  # fmt: skip
    certificates = recertify(
        source, images, cache, samples=transfer, alpha=alpha, family=family, family_size=family_size, progress=progress
    )
    drawn = cache.certificates
    about = {
        "made by": name, "passes per input": f"{drawn.mean_forward_passes:.0f}", "seconds": f"{drawn.seconds.sum():.3g}",
        **asdict(cache.manifest.model),
    }  # fmt: skip
    return ProxyCertification(replace(certificates, settings=replace(certificates.settings, proxy=about)), cache, name)


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
