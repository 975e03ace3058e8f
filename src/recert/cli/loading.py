"""Models, data and approximations from their specs, for every command alike."""

import re
from typing import TYPE_CHECKING

from recert.cli.output import say

if TYPE_CHECKING:
    from torch import nn

    from recert.approximations import Approximation, Calibration
    from recert.data import Dataset
    from recert.noise import Noise

CALIBRATION_INPUTS = 256


def load_network(spec: str, *, device: str, trust: bool = False) -> "nn.Module":
    """The model of a spec, on a device."""
    from recert.models.devices import usable_device
    from recert.models.loading import load_model

    place = usable_device(device)
    loaded = load_model(spec, trust=trust)
    if loaded.note:
        say(f"{spec}: {loaded.note}")
    return loaded.model.to(place)


def load_inputs(spec: str, *, split: str, every: int, count: int | None) -> "Dataset":
    """The data of a spec, with a warning if it does not look like what noise scales are meant for."""
    from recert.data import load_data

    data = load_data(spec, split=split, every=every, count=count)
    # Above 2 the inputs are hardly in [0, 1], or normalised to about it: noise of 0.5 would then be far smaller than meant.
    largest = float(abs(data.inputs).max())
    if largest > 2:
        say(
            f"[yellow]warning:[/yellow] inputs reach {largest:g}; the noise scale is in units of the input, and usual scales are "
            "for inputs in \\[0, 1]. Scale the inputs, and normalise inside the model."
        )
    return data


def approximated(
    model: "nn.Module", spec: str, data_spec: str, data: "Dataset", noise: "Noise", seed: int
) -> "Approximation":
    """The changed model; what needs calibration is calibrated on noisy training inputs where the data has them."""
    from recert.approximations import approximate, needs_calibration

    calibration = calibration_for(data_spec, noise, seed) if needs_calibration(spec) else None
    return approximate(model, spec, calibration=calibration, example_input=data.inputs[:1])


def calibration_for(data_spec: str, noise: "Noise", seed: int) -> "Calibration":
    """Noisy training inputs: the same for every command that is given the same data, noise and seed."""
    from recert.approximations import Calibration
    from recert.data import load_data

    training = load_data(data_spec, split="train", count=CALIBRATION_INPUTS)
    return Calibration(training.inputs, noise=noise, seed=seed)


def default_store(model: str, noise: str) -> str:
    """runs/MODEL-NOISE, with odd characters replaced."""
    return "runs/" + re.sub(r"[^A-Za-z0-9.]+", "-", f"{model}-{noise}").strip("-")
