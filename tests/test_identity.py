"""A model's digest changes with anything that could change its votes, and with nothing else."""

import copy

import torch
from torch import nn

from recert.models.digest import identify, numerics


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
    described = numerics(torch.device("cpu"), torch.float32, 256)
    assert described["dtype"] == "float32"
    assert described["device"] == "cpu"
    assert described["batch_size"] == "256"
    assert {"torch", "processor"} <= set(described)
