"""Pruning against numpy's order of the weights."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

import recert
from recert.approximations import approximate

from .conftest import trained

PRUNED = ("stem", "block.first", "block.second", "down", "last")
FRACTIONS = (0.05, 0.1, 0.5, 0.99)


def weights(model: nn.Module) -> dict[str, np.ndarray]:
    return {name: model.get_submodule(name).weight.detach().numpy() for name in PRUNED}


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_global_fraction_is_exact(fraction: float) -> None:
    before = weights(trained())
    result = approximate(trained(), f"prune:{fraction}")
    everything = np.concatenate([np.abs(w).ravel() for w in before.values()])
    count = round(fraction * everything.size)
    threshold = np.quantile(everything, (count - 0.5) / (everything.size - 1))  # between the count-th and the next
    for name, after in weights(result.model).items():
        np.testing.assert_array_equal(after, np.where(np.abs(before[name]) < threshold, 0, before[name]))
    assert sum((w == 0).sum() for w in weights(result.model).values()) == count
    assert result.facts["zero_weights"].startswith(f"{count} of {everything.size} ")


@pytest.mark.parametrize("fraction", FRACTIONS)
def test_layer_fraction_is_exact(fraction: float) -> None:
    result = approximate(trained(), f"prune-layer:{fraction}")
    for (name, before), after in zip(weights(trained()).items(), weights(result.model).values(), strict=True):
        count = round(fraction * before.size)
        threshold = np.quantile(np.abs(before), (count - 0.5) / (before.size - 1))
        np.testing.assert_array_equal(after, np.where(np.abs(before) < threshold, 0, before), err_msg=name)
        assert (after == 0).sum() == count


@pytest.mark.parametrize("spec", ["prune:0.2", "prune-layer:0.2"])
def test_masks_are_gone_and_the_rest_is_untouched(spec: str) -> None:
    before, after = trained().state_dict(), approximate(trained(), spec).model.state_dict()
    assert list(before) == sorted(after, key=list(before).index)
    assert not any(name.endswith(("weight_orig", "weight_mask")) for name in after)
    untouched = [name for name in before if name.removesuffix(".weight") not in PRUNED]
    assert all(torch.equal(before[name], after[name]) for name in untouched)


def test_nothing_to_prune() -> None:
    with pytest.raises(recert.RecertError, match="expected a model with convolutions or linear layers"):
        approximate(nn.Sequential(nn.BatchNorm2d(3), nn.Flatten()).eval(), "prune:0.5")


def test_computed_weights_are_made_permanent_first() -> None:
    torch.manual_seed(0)
    masked = nn.Sequential(prune.random_unstructured(nn.Linear(8, 8), "weight", 0.25))
    zeros = masked[0].weight == 0
    made = approximate(masked, "prune:0.5").model
    assert int((made[0].weight == 0).sum()) == 32
    assert bool((made[0].weight[zeros] == 0).all())  # those that the mask made are the smallest
    assert isinstance(made[0].weight, nn.Parameter)
    assert hasattr(masked[0], "weight_mask")  # the caller's model stays as it is
    normed = approximate(nn.Sequential(parametrizations.weight_norm(nn.Linear(8, 8))), "prune:0.5").model
    assert int((normed[0].weight == 0).sum()) == 32


def test_shared_weights_stay_shared() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    model[2].weight = model[0].weight
    pruned = approximate(model, "prune:0.5").model
    assert pruned[2].weight is pruned[0].weight
    assert int((pruned[0].weight == 0).sum()) == 8
