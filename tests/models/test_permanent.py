"""Masks and parametrisations: counted, exported, timed and changed as the weights that they give; and what they are known by."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize, prune

import recert
from recert.approximations import approximate
from recert.choosing.costs import find_costs
from recert.errors import UnusableModel
from recert.models.digest import identify
from recert.models.inference import prepare
from recert.models.permanent import copied, permanent
from tests.cache.stores import OPTIONS, inputs, network

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


def pruned(*, fixed: bool, amount: float = 0.6) -> Any:
    model: Any = network()
    prune.global_unstructured([(model[0], "weight"), (model[2], "weight")], prune.L1Unstructured, amount=amount)
    if fixed:
        prune.remove(model[0], "weight")
        prune.remove(model[2], "weight")
    return model


class Doubled(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


WAYS: dict[str, Callable[[nn.Module], Any]] = {
    "a mask": lambda layer: prune.random_unstructured(layer, "weight", 0.5),
    "two masks": lambda layer: prune.l1_unstructured(prune.random_unstructured(layer, "weight", 0.3), "weight", 0.5),
    "a mask of the bias": lambda layer: prune.random_unstructured(layer, "bias", 0.5),
    "weight normalisation": parametrizations.weight_norm,
    "spectral normalisation": parametrizations.spectral_norm,
    "orthogonal": parametrizations.orthogonal,
    "the user's own": lambda layer: parametrize.register_parametrization(layer, "weight", Doubled()),
    "of a buffer": lambda layer: parametrize.register_parametrization(_with_buffer(layer), "scale", Doubled()),
    "weight normalisation by a hook": nn.utils.weight_norm,
    "spectral normalisation by a hook": nn.utils.spectral_norm,
    "a mask on what is normalised": lambda layer: prune.l1_unstructured(nn.utils.weight_norm(layer), "weight_g", 1),
}


def _with_buffer(layer: nn.Module) -> nn.Module:
    layer.register_buffer("scale", torch.ones(3))
    return layer


@pytest.mark.parametrize("name", WAYS)
def test_the_permanent_copy_computes_the_same_and_the_model_stays_as_it_is(name: str) -> None:
    model: Any = network()
    WAYS[name](model[2])
    model.eval()
    batch = torch.from_numpy(inputs())
    model(batch)  # a hook of spectral normalisation sets the weight in the first pass only
    state, answer = {key: value.clone() for key, value in model.state_dict().items()}, model(batch).detach()
    made: Any = permanent(model)
    torch.testing.assert_close(made(batch), answer, rtol=0, atol=0, equal_nan=True)
    plain = {"weight", "bias", *(["scale"] if name == "of a buffer" else [])}
    assert {key.removeprefix("2.") for key in made.state_dict() if key.startswith("2.")} == plain
    assert type(made[2]) is nn.Linear
    copy.deepcopy(made)  # nothing computed is left in it
    own = {id(weight) for weight in model.parameters()}
    with torch.no_grad():
        for weight in [each for each in made.parameters() if id(each) not in own]:
            weight.zero_()
    assert all(torch.equal(state[key], value) for key, value in model.state_dict().items())
    torch.testing.assert_close(model(batch), answer, rtol=0, atol=0, equal_nan=True)


def test_without_anything_computed_it_is_the_model_itself() -> None:
    model = network()
    assert permanent(model) is model


def test_layers_that_share_what_they_are_computed_from() -> None:
    first, second = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
    second.weight = first.weight
    parametrize.register_parametrization(first, "weight", Doubled())
    model = nn.Sequential(first, second).eval()
    batch = torch.eye(3)
    made: Any = permanent(model)
    assert torch.equal(made(batch), model(batch))
    assert torch.equal(made[0].weight, 2 * made[1].weight)


@pytest.mark.parametrize("kind", ["bytes", "parameters"])
def test_a_mask_counts_as_the_weights_that_it_leaves(kind: str) -> None:
    found = find_costs({"masked": pruned(fixed=False), "fixed": pruned(fixed=True), "whole": network()}, kind, None)
    assert found.values["masked"] == found.values["fixed"] < found.values["whole"]


def test_select_takes_the_masked_network_where_it_is_as_good() -> None:
    model: Any = network()
    prune.l1_unstructured(model[0], "weight", 0.05)
    data = inputs()
    original = network()
    cache = recert.certify(original, data, **{**OPTIONS, "samples": 2_000})
    labels = cache.certificates.prediction
    labels[labels < 0] = 0
    chosen = recert.select(
        {"original": original, "masked": model}, data, cache, labels, metric="accuracy:0", tolerance=0.5, samples=600
    )
    assert chosen.winner == "masked"


def test_exports_and_changes_start_from_the_weights_that_a_mask_leaves() -> None:
    masked, fixed = pruned(fixed=False), pruned(fixed=True)
    assert identify(approximate(masked, "prune:0.8").model) == identify(approximate(fixed, "prune:0.8").model)
    onnx = pytest.importorskip("onnxscript") and recert.Execution(runtime="onnxruntime")
    batch = torch.from_numpy(inputs())
    exported = [onnx.prepared(model, inputs()) for model in (masked, fixed)]
    assert torch.equal(exported[0](batch), exported[1](batch))  # type: ignore[operator]
    assert exported[0].data.numel() == exported[1].data.numel()  # type: ignore[union-attr, operator]


def test_a_masked_network_that_was_trained_with_its_mask_is_prepared() -> None:
    model = pruned(fixed=False)
    model(torch.from_numpy(inputs()))  # leaves a tensor with gradients behind, which torch does not copy
    made = prepare(model, precision="fp32")
    assert torch.equal(made(torch.from_numpy(inputs())), model(torch.from_numpy(inputs())))


class Reads(nn.Module):
    """Reads, in its own code, what is under a mask."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3, bias=False)
        self.how = how
        prune.custom_from_mask(self.layer, "weight", torch.tensor([[1, 1, 1, 0]] * 3))

    def forward(self, batch: Tensor) -> Tensor:
        return self.layer(batch)


class ByName(Reads):
    def forward(self, batch: Tensor) -> Tensor:
        return self.layer(batch) + self.layer.weight_orig.sum()


class ByAll(Reads):
    def forward(self, batch: Tensor) -> Tensor:
        return self.layer(batch) + sum(weight.sum() for weight in self.parameters())


@pytest.mark.parametrize("kind", [Reads, ByName, ByAll])
def test_values_under_a_mask_count_where_code_reads_them(kind: type[Reads]) -> None:
    torch.manual_seed(0)
    one = kind("").eval()
    other = copied(one)
    with torch.no_grad():
        other.layer.weight_orig[:, 3] *= 2  # type: ignore[operator, index, union-attr]
    batch = torch.rand(5, 4)
    same_votes = torch.equal(one(batch), other(batch))
    assert same_votes == (kind is Reads)  # what the test is about
    assert (identify(one) == identify(other)) == same_votes


def test_a_mask_and_the_same_zeros_for_good_are_one_model() -> None:
    masked, fixed = pruned(fixed=False), pruned(fixed=True)
    before = identify(masked)
    masked(torch.from_numpy(inputs()))
    assert identify(masked) == before == identify(fixed) == identify(copy.deepcopy(pruned(fixed=True)))
    assert len({identify(each) for each in (masked, network(), pruned(fixed=False, amount=0.5))}) == 3


def test_a_cache_of_a_masked_network_is_continued_by_the_permanent_one(tmp_path: Any) -> None:
    recert.certify(pruned(fixed=False), inputs(), **OPTIONS, store=tmp_path / "a")
    grown = recert.certify(pruned(fixed=True), inputs(), **{**OPTIONS, "samples": 400}, store=tmp_path / "a")
    assert grown.manifest.looks == (300, 400)


class Halving(prune.L1Unstructured):
    """A class that multiplies in its own way."""

    def apply_mask(self, module: nn.Module) -> Tensor:
        return super().apply_mask(module) / 2


def test_hooks_that_do_more_than_mask_are_part_of_the_identity() -> None:
    plain, halved, soft = network(), network(), network()
    prune.L1Unstructured.apply(plain[0], "weight", 0.5)  # type: ignore[operator, index]
    Halving.apply(halved[0], "weight", 0.5)  # type: ignore[operator, index]
    prune.custom_from_mask(soft[0], "weight", torch.full((8, 4), 0.5))  # type: ignore[index, arg-type]
    scaled = network()
    with torch.no_grad():
        scaled[0].weight *= 0.5  # type: ignore[index, union-attr, operator]
    assert len({identify(each) for each in (plain, halved, soft, scaled)}) == 4
    assert identify(halved) != identify(permanent(halved))  # nobody knows what its code does the next time
    assert permanent(halved)[0].weight.abs().sum() < permanent(plain)[0].weight.abs().sum()  # type: ignore[index, union-attr, operator]


def test_parametrisations_are_known_by_what_they_are_computed_from() -> None:
    """Their products are rounded, on another processor in another way: a store must not depend on that."""
    model: Any = network()
    parametrizations.weight_norm(model[0])
    assert identify(model) != identify(permanent(model))


def test_a_model_that_cannot_be_copied_says_what_to_do() -> None:
    model = pruned(fixed=False)
    model.generator = (each for each in range(3))
    with pytest.raises(UnusableModel, match=r"to make its computed weights permanent, got TypeError.*prune\.remove"):
        permanent(model)
