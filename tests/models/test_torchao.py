"""Networks that torchao has quantised: certified, stored, continued, re-certified and chosen like any other."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import recert
from recert.choosing.costs import nonzero_parameters, stored_bytes
from recert.errors import UnusableModel
from recert.models.digest import identify
from tests.cache.stores import OPTIONS

quantization = pytest.importorskip("torchao.quantization")
granularity = pytest.importorskip("torchao.quantization.granularity")

pytestmark = pytest.mark.filterwarnings("ignore")

CONFIGURATIONS: dict[str, Any] = {
    "int8 weights": quantization.Int8WeightOnlyConfig(),
    "int8, activations by row": quantization.Int8DynamicActivationInt8WeightConfig(),
    "int4 weights": quantization.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=granularity.PerGroup(16)),
    "int4 weights, int8 activations": quantization.Int8DynamicActivationIntxWeightConfig(
        weight_dtype=torch.int4, weight_granularity=granularity.PerGroup(16)
    ),
    "float8 weights": quantization.Float8WeightOnlyConfig(),
}
BY_TENSOR = quantization.Int8DynamicActivationInt8WeightConfig(granularity=granularity.PerTensor())


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3)).eval()


def quantised(configuration: Any, **options: Any) -> Any:
    model = network()
    quantization.quantize_(model, configuration, **options)
    return model


def inputs() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(6, 32)).astype(np.float32)


@pytest.fixture(scope="module")
def original() -> recert.Cache:
    return recert.certify(network(), inputs(), **{**OPTIONS, "samples": 1_000})


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_from_certify_to_select(name: str, original: recert.Cache, tmp_path: Path) -> None:
    model = quantised(CONFIGURATIONS[name])
    recert.certify(model, inputs(), **OPTIONS, store=tmp_path / "a")
    grown = recert.certify(
        quantised(CONFIGURATIONS[name]), inputs(), **{**OPTIONS, "samples": 600}, store=tmp_path / "a"
    )
    assert grown.manifest.looks == (300, 600)
    assert recert.audit(model, inputs(), grown, detect=0.2).verdict == "genuine"
    again = recert.recertify(model, inputs(), original, samples=200)
    both = grown.certificates.certified & again.certified
    assert both.any()
    assert (grown.certificates.prediction == again.prediction)[both].all()
    labels = np.maximum(original.certificates.prediction, 0)
    candidates = {"original": network(), "changed": model}
    chosen = recert.select(candidates, inputs(), original, labels, metric="accuracy:0", tolerance=0.5, samples=400)
    assert chosen.winner == "changed"


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_one_identity_for_one_network(name: str) -> None:
    model = quantised(CONFIGURATIONS[name])
    first = identify(model)
    assert first.nameless is None
    model(torch.from_numpy(inputs()))
    assert first == identify(model) == identify(copy.deepcopy(model)) == identify(quantised(CONFIGURATIONS[name]))


def test_every_part_of_a_weight_counts() -> None:
    seen = {identify(quantised(CONFIGURATIONS["int8 weights"]))}
    for part in ("qdata", "scale", "zero_point"):
        model = quantised(CONFIGURATIONS["int8 weights"])
        getattr(model[2].weight, part).view(-1)[-1] += 1
        seen.add(identify(model))
    assert len(seen) == 4


def test_what_a_weight_knows_beside_its_numbers_counts() -> None:
    """The same integers and scales, multiplied with activations that are rounded by row, by tensor, or not at all."""
    models = [
        quantised(each)
        for each in (CONFIGURATIONS["int8 weights"], CONFIGURATIONS["int8, activations by row"], BY_TENSOR)
    ]
    for model in models[1:]:
        for layer in (0, 2):
            weight = model[layer].weight
            for part in ("qdata", "scale", "zero_point"):
                setattr(weight, part, getattr(models[0][layer].weight, part))
            weight.block_size = models[0][layer].weight.block_size
    assert len({identify(model).weights for model in models}) == 1
    assert len({identify(model).structure for model in models}) == 3


def test_scales_of_a_whole_batch_need_batches_of_one(original: recert.Cache) -> None:
    model = quantised(BY_TENSOR)
    with pytest.raises(UnusableModel, match=r"depends on the other rows.*per-tensor.*batch_size=1 \(--batch-size 1\)"):
        recert.recertify(model, inputs(), original, samples=100)
    alone = recert.recertify(model, inputs(), original, samples=100, batch_size=1)
    assert alone.certified.any()
    assert alone.settings.numerics.batch_size == 1


def test_costs_by_hand() -> None:
    """Weights of 32 x 32 and 3 x 32 and float32 biases; a float32 scale and an int8 zero point for each row or group of 16."""
    weights, rows, biases = 32 * 32 + 3 * 32, 35, 35
    int8, int4 = quantised(CONFIGURATIONS["int8 weights"]), quantised(CONFIGURATIONS["int4 weights"])
    zero_points = 16 + 2  # all 0: two to a byte, in two layers
    assert stored_bytes(int8) == weights + 4 * rows + zero_points + 4 * biases
    groups = weights // 16
    assert stored_bytes(int4) == weights // 2 + 4 * groups + (64 + 6) // 2 + 4 * biases
    assert nonzero_parameters(int8) == sum(
        int((layer.weight.qdata != 0).sum()) + len(layer.bias) for layer in (int8[0], int8[2])
    )


def test_convolutions_are_left_as_they_are() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(32, 3)).eval()
    quantization.quantize_(model, CONFIGURATIONS["int8 weights"])
    images = np.random.default_rng(0).random((3, 1, 6, 6)).astype(np.float32)
    assert recert.certify(model, images, **OPTIONS).certificates.certified.any()
