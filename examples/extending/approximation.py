"""An approximation of your own, which needs calibration. python examples/extending/approximation.py

The inputs of every convolution and linear layer are clipped to the range that most of them have, as is done before activations are
quantised. The ranges are measured on noisy training inputs.
"""

import numpy as np
import torch
from torch import nn

import recert
from recert.approximations import Context


def clip(model: nn.Module, argument: str | None, context: Context) -> nn.Module:
    """Inputs of layers clipped to the range that a share of them has (clip:SHARE)"""
    share = float(argument or 0.99)
    if not 0 < share < 1:
        raise ValueError(f"expected a share between 0 and 1, got {argument!r}; for example clip:0.99")
    calibration = context.required_calibration()  # says what to pass if there is none
    ranges = measured_ranges(model, torch.from_numpy(calibration.noisy()), share)
    for name, (low, high) in ranges.items():
        parent, _, child = name.rpartition(".")
        layer = model.get_submodule(name)
        setattr(model.get_submodule(parent), child, nn.Sequential(nn.Hardtanh(low, high), layer))
    context.description = f"inputs of {len(ranges)} layers clipped to where {share:g} of them lie"
    context.facts.update(calibration.facts())
    return model  # a private copy: the caller's model stays as it is


def measured_ranges(model: nn.Module, inputs: torch.Tensor, share: float) -> dict[str, tuple[float, float]]:
    """Between which numbers this share of the inputs of each layer lies."""
    seen: dict[str, list[torch.Tensor]] = {}
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, nn.Conv2d | nn.Linear)}
    hooks = [
        layer.register_forward_pre_hook(lambda _, given, name=name: seen.setdefault(name, []).append(given[0]))
        for name, layer in layers.items()
    ]
    with torch.inference_mode():
        model(inputs.to(next(model.parameters()).device))
    for hook in hooks:
        hook.remove()
    tails = [(1 - share) / 2, (1 + share) / 2]
    ranges = {name: np.quantile(torch.cat(given).cpu().numpy(), tails) for name, given in seen.items()}
    return {name: (float(low), float(high)) for name, (low, high) in ranges.items() if low < high}


recert.register_approximation("clip", clip, needs_calibration=True)


def main() -> None:
    from recert.data import load_data
    from recert.models import load_model

    noise = recert.Gaussian(0.5)
    model, data = load_model("digits").model, load_data("digits", count=40)
    cache = recert.certify(model, data.inputs, noise=noise, samples=4_000)
    # The calibration stream shares no noise with votes: the clipped model is fixed before any cached noise is looked at.
    calibration = recert.Calibration(load_data("digits", split="train", count=200).inputs, noise=noise)
    clipped = recert.approximate(model, "clip:0.99", calibration=calibration)
    print(f"{clipped.description}; changed: {clipped.facts['changed']}")
    result = recert.recertify(clipped.model, data.inputs, cache, samples=400)
    print(result.guarantee)
    print(f"average certified radius of the clipped network: {result.average_certified_radius(data.labels):.3f}")


if __name__ == "__main__":
    main()
