"""Models, data and approximations from their specs, for every command alike."""

import re
import warnings
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from recert.cli.output import say

if TYPE_CHECKING:
    from torch import nn

    from recert.approximations import Approximation, Calibration
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
    from recert.units import UnusualUnits, unusual_units

    data = load_data(spec, split=split, every=every, count=count)
    if (remark := unusual_units(data.inputs)) is not None:
        say(f"[yellow]warning:[/yellow] {escape(remark)}")
        warnings.filterwarnings("ignore", category=UnusualUnits)  # which says the same again when votes are drawn
    return data


def approximated(
    model: "nn.Module",
    spec: str,
    data_spec: str,
    data: "Dataset",
    noise: "Noise",
    seed: int,
    *,
    calibrate_on: str | None = None,
    scored: bool = True,
) -> "Approximation":
    """The changed model; what needs calibration is calibrated under noise on the data that is named for it, else on training data.

    A data set without a training split has only what is certified: that is said, unless it does not matter, as for a proxy,
    about which nothing is claimed.
    """
    from recert.approximations import approximate, needs_calibration
    from recert.models.calibrated import CalibratedOnInputs, calibrated_on, calibration_remark
    from recert.noise import input_digest

    calibration = None
    if needs_calibration(spec):
        calibration = calibration_for(calibrate_on or data_spec, noise, seed)
        if calibration.inputs.shape[1:] != data.inputs.shape[1:]:
            raise ValueError(
                f"expected calibration data of shape {data.inputs.shape[1:]}, as the inputs have, got {calibration.inputs.shape[1:]} in "
                f"{calibrate_on or data_spec}"
            )
    elif calibrate_on is not None:
        raise ValueError(
            f"expected --calibration with an approximation that needs it, such as int8, got {spec}; leave it out"
        )
    made = approximate(model, spec, calibration=calibration, example_input=data.inputs[:1])
    if scored and (shared := calibrated_on(made.model, map(input_digest, data.inputs))):
        say(f"[yellow]warning:[/yellow] {calibration_remark(shared)} Name it with --calibration.")
        warnings.filterwarnings("ignore", category=CalibratedOnInputs)  # which says the same again when votes are drawn
    return made


def calibration_for(data_spec: str, noise: "Noise", seed: int) -> "Calibration":
    """Noisy training inputs: the same for every command that is given the same data, noise and seed."""
    from recert.approximations import Calibration
    from recert.data import load_data

    training = load_data(data_spec, split="train", count=CALIBRATION_INPUTS)
    return Calibration(training.inputs, noise=noise, seed=seed)


def default_store(model: str, noise: str) -> str:
    """runs/MODEL-NOISE, with odd characters replaced."""
    return "runs/" + re.sub(r"[^A-Za-z0-9.]+", "-", f"{model}-{noise}").strip("-")
