"""A model's digest changes with anything that could change its votes, and with nothing else."""

import copy

import pytest
import torch
from torch import nn

from recert.models.digest import identify, numerics_on


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3)).eval()


def test_copies_and_reloads_are_the_same() -> None:
    model = network()
    fresh = network()
    fresh.load_state_dict(model.state_dict())
    assert identify(model) == identify(copy.deepcopy(model)) == identify(fresh)


def test_one_weight_one_statistic_one_buffer() -> None:
    seen = {identify(network()).weights}
    for name, value in network().state_dict().items():
        model = network()
        changed = value.clone()
        changed.view(-1)[0] += 1
        model.load_state_dict({**model.state_dict(), name: changed})
        seen.add(identify(model).weights)
    assert len(seen) == 1 + len(network().state_dict())


def test_dtype_and_buffers_that_are_not_saved_count() -> None:
    model = network()
    assert identify(model.double()).weights != identify(network()).weights
    hidden = network()
    hidden.register_buffer("scale", torch.ones(1), persistent=False)
    other = network()
    other.register_buffer("scale", torch.zeros(1), persistent=False)
    assert identify(hidden).weights != identify(other).weights


def test_structure_counts() -> None:
    relu, gelu = network(), network()
    gelu[2] = nn.GELU()
    padded = network()
    padded[0].padding_mode = "circular"
    digests = {identify(m).structure for m in (relu, gelu, padded)}
    assert len(digests) == 3
    assert identify(relu).weights == identify(gelu).weights


def forward_model(source: str) -> nn.Module:
    """A module class from source that inspect can find."""
    import linecache

    name = f"<model {hash(source)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope: dict[str, object] = {"nn": nn, "__name__": "user_code"}
    exec(compile(source, name, "exec"), scope)
    return scope["Model"]()  # type: ignore[operator, no-any-return]


def test_forward_code_counts_but_its_comments_do_not() -> None:
    body = "class Model(nn.Module):\n    def forward(self, x):\n        {}return {}\n"
    plain, commented, other = (
        forward_model(body.format(*parts))
        for parts in (("", "x + 1"), ("'''Says.'''\n        # why\n        ", "(x + 1)"), ("", "x + 2"))
    )
    assert identify(plain).structure != identify(other).structure
    assert identify(plain).structure == identify(commented).structure


def test_callables_are_known_by_name() -> None:
    assert identify(lambda b: b, "api-1") == identify(lambda b: b + 1, "api-1") != identify(lambda b: b, "api-2")


def test_numerics_name_what_changes_the_last_bit() -> None:
    described = numerics_on(torch.device("cpu"), torch.float32, 256).to_text()
    assert described["dtype"] == "float32"
    assert described["device"] == "cpu"
    assert described["batch_size"] == "256"
    assert {"torch", "processor"} <= set(described)


def test_what_a_module_does_not_print_is_part_of_its_identity() -> None:
    def layer(**options: object) -> torch.nn.Module:
        torch.manual_seed(0)
        return torch.nn.TransformerEncoderLayer(16, **{"nhead": 2, "dim_feedforward": 8, **options}).eval()  # type: ignore[arg-type]

    kinds = [layer(), layer(nhead=4), layer(activation="gelu"), layer(norm_first=True)]
    assert len({identify(kind) for kind in kinds}) == 4
    assert identify(layer()) == identify(layer())


class Scaled(torch.nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.helper(batch)

    def helper(self, batch: torch.Tensor) -> torch.Tensor:
        return batch * self.factor


def test_attributes_and_hooks_are_part_of_the_identity() -> None:
    hooked = Scaled(1.0)
    hooked.register_forward_hook(lambda module, inputs, output: -output)
    assert len({identify(model) for model in (Scaled(1.0), Scaled(2.0), hooked)}) == 3
    assert identify(Scaled(1.0)) == identify(copy.deepcopy(Scaled(1.0)))


@pytest.mark.filterwarnings("ignore")
def test_packed_weights_are_part_of_the_identity() -> None:
    def quantised(sign: float) -> torch.nn.Module:
        packed = torch.ao.nn.quantized.Linear(4, 2)
        weight = torch.quantize_per_tensor(sign * torch.arange(8.0).reshape(2, 4), 0.1, 0, torch.qint8)
        packed.set_weight_bias(weight, torch.zeros(2))
        return packed.eval()

    assert identify(quantised(1.0)) != identify(quantised(-1.0))
    assert identify(quantised(1.0)) == identify(quantised(1.0))
