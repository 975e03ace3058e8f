"""Models, data and approximations from their specs, for every command alike."""

import re
from typing import TYPE_CHECKING, Any

from recert.cli.output import say

if TYPE_CHECKING:
    from torch import nn

    from recert.approximations import Approximation
    from recert.data import Dataset
    from recert.noise import Noise

CALIBRATION_INPUTS = 256


def load_network(spec: str, *, device: str, trust: bool = False) -> Any:
    """The model of a spec, on a device. A function stays where it is."""
    from recert.models.devices import usable_device
    from recert.models.loading import load_model

    place = usable_device(device)
    loaded = load_model(spec, trust=trust)
    if loaded.note:
        say(f"{spec}: {loaded.note}")
    if is_function(loaded.model):
        if str(place) != "cpu":
            raise ValueError(f"expected --device cpu with a function, got {device}; it computes where it likes")
        return loaded.model
    return loaded.model.to(place)


def is_function(model: object) -> bool:
    """Whether a model is no network but a function that is asked for votes."""
    return not hasattr(model, "state_dict")


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
    from recert.approximations import Calibration, approximate, needs_calibration
    from recert.data import load_data

    calibration = None
    if needs_calibration(spec):
        training = load_data(data_spec, split="train", count=CALIBRATION_INPUTS)
        calibration = Calibration(training.inputs, noise=noise, seed=seed)
    return approximate(model, spec, calibration=calibration, example_input=data.inputs[:1])


def default_store(model: str, noise: str) -> str:
    """runs/MODEL-NOISE, with odd characters replaced."""
    return "runs/" + re.sub(r"[^A-Za-z0-9.]+", "-", f"{model}-{noise}").strip("-")
