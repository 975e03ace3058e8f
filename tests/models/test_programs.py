"""Networks in other forms than a module of layers: torch.ao's quantised ones, exported programs, TorchScript, tensor subclasses."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.ao.quantization import get_default_qconfig_mapping, quantize_dynamic
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

import recert
from recert.approximations import approximate
from recert.choosing.costs import find_costs
from recert.errors import UnusableModel
from recert.models import load_model
from recert.models.digest import identify
from tests.cache.stores import OPTIONS, inputs, network
from tests.test_cli import recert as recert_command

pytestmark = pytest.mark.filterwarnings("ignore")


def static(model: nn.Module) -> nn.Module:
    batch = torch.from_numpy(inputs())
    observed = prepare_fx(copy.deepcopy(model), get_default_qconfig_mapping("x86"), (batch,))
    observed(batch)
    made: nn.Module = convert_fx(observed).eval()
    return made


def dynamic(model: nn.Module) -> nn.Module:
    return quantize_dynamic(copy.deepcopy(model), {nn.Linear}, dtype=torch.qint8).eval()  # type: ignore[no-any-return]


def program(model: nn.Module) -> Any:
    return torch.export.export(model, (torch.zeros(2, 4),), dynamic_shapes=({0: torch.export.Dim("batch")},))


FORMS: dict[str, Callable[[nn.Module], Any]] = {
    "static int8": static,
    "an exported program": program,
    "its module": lambda model: program(model).module(),
    "scripted": torch.jit.script,
    "traced": lambda model: torch.jit.trace(model, torch.zeros(2, 4)),
    "frozen": lambda model: torch.jit.freeze(torch.jit.script(model)),
    "for inference": lambda model: torch.jit.optimize_for_inference(torch.jit.script(model)),
}


@pytest.fixture(scope="module")
def original() -> recert.Cache:
    return recert.certify(network(), inputs(), **{**OPTIONS, "samples": 1_000})


@pytest.mark.parametrize("name", FORMS)
def test_from_certify_to_audit(name: str, original: recert.Cache, tmp_path: Path) -> None:
    model = FORMS[name](network())
    recert.certify(model, inputs(), **OPTIONS, store=tmp_path / "a")
    grown = recert.certify(FORMS[name](network()), inputs(), **{**OPTIONS, "samples": 600}, store=tmp_path / "a")
    assert recert.audit(model, inputs(), grown, detect=0.2).verdict == "genuine"
    again = recert.recertify(model, inputs(), original, samples=200)
    both = grown.certificates.certified & again.certified
    assert both.any()
    assert (grown.certificates.prediction == again.prediction)[both].all()
    if name != "static int8":  # computes the same as the network that it was made from, up to rounding
        for digest in original.digests:
            differing = np.mean(original.votes(digest)[:600] != grown.votes(digest))
            assert differing < 0.01


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("layer", [0, 2])
def test_a_weight_of_any_layer_counts(name: str, layer: int) -> None:
    other: Any = network()
    with torch.no_grad():
        other[layer].weight[0, 0] += 0.5
    made = [FORMS[name](model) for model in (network(), network(), other)]
    first, same, changed = (identify(each.module() if name == "an exported program" else each) for each in made)
    assert first == same != changed


def test_weights_that_are_packed_for_a_library_count() -> None:
    plain, other = load_model("digits").model, load_model("digits").model
    with torch.no_grad():
        other.conv1.weight[0, 0, 0, 0] += 0.5  # type: ignore[index, union-attr, operator]
    first, same, changed = (torch.jit.optimize_for_inference(torch.jit.script(each)) for each in (plain, plain, other))
    assert "mkldnn" in str(first.inlined_graph)  # what the test is about
    assert identify(first) == identify(same) != identify(changed)


def test_a_program_is_a_candidate_and_can_be_changed() -> None:
    found = find_costs({"program": program(network()), "network": network()}, "parameters", None)
    assert found.values["program"] == found.values["network"]
    made, batch = approximate(program(network()), "bf16").model, torch.from_numpy(inputs()).bfloat16()
    assert torch.equal(made(batch), approximate(network(), "bf16").model(batch))


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop, self.layer = nn.Dropout(0.5), nn.Linear(4, 3)

    def forward(self, batch: Tensor) -> Tensor:
        return self.layer(self.drop(batch))


def test_a_program_that_was_exported_in_training_mode_is_found_out() -> None:
    with pytest.raises(UnusableModel, match="not deterministic"):
        recert.certify(program(Noisy().train()), inputs(), **OPTIONS)
    recert.certify(program(Noisy().eval()), inputs(), **OPTIONS)


def test_a_layer_beside_a_program_must_be_in_eval_mode() -> None:
    model = nn.Sequential(program(network()).module(), nn.Dropout(0.5))
    model.training = False
    with pytest.raises(UnusableModel, match=r"training mode \(1\)"):
        recert.certify(model, inputs(), **OPTIONS)


def test_scales_of_a_whole_batch_need_batches_of_one(original: recert.Cache) -> None:
    with pytest.raises(UnusableModel, match=r"depends on the other rows.*batch_size=1"):
        recert.certify(dynamic(network()), inputs(), **{**OPTIONS, "batch_size": 32})
    alone = recert.certify(dynamic(network()), inputs(), **{**OPTIONS, "batch_size": 1})
    batch = torch.from_numpy(inputs())
    rows = torch.cat([dynamic(network())(row[None]) for row in batch])
    assert not torch.equal(rows, dynamic(network())(batch))  # what makes batches of many unusable
    assert alone.certificates.certified.any()
    assert recert.recertify(dynamic(network()), inputs(), original, samples=100, batch_size=1).certified.any()


@pytest.mark.parametrize("form", ["scripted", "traced", "frozen"])
def test_a_file_of_torchscript_is_read_on_the_users_word(form: str, tmp_path: Path) -> None:
    path, model = tmp_path / "network.pt", FORMS[form](network())
    model.save(str(path))
    with pytest.raises(UnusableModel, match=r"holds a TorchScript program.*pass trust=True \(--trust\)"):
        load_model(path)
    loaded = load_model(path, trust=True)
    assert torch.equal(loaded.model(torch.from_numpy(inputs())), model(torch.from_numpy(inputs())))
    assert "trusted by you" in loaded.note
    assert identify(loaded.model) == identify(load_model(path, trust=True).model)


def test_a_file_of_torchscript_on_the_command_line(tmp_path: Path) -> None:
    path, data = tmp_path / "network.pt", tmp_path / "data.npz"
    torch.jit.script(network()).save(str(path))
    np.savez(data, x=inputs(), y=np.zeros(6, np.int64))
    command = ["certify", "--model", str(path), "--data", str(data), "--samples", "300", "--store", str(tmp_path / "s")]
    refused = recert_command(*command)
    assert refused.returncode == 1
    assert "--trust" in refused.stderr
    assert recert_command(*command, "--trust").returncode == 0


def test_a_file_that_only_looks_like_torchscript(tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "bad.pt", "w") as archive:
        archive.writestr("bad/code/__torch__.py", "junk")
    with pytest.raises(UnusableModel, match=r"saved by torch\.jit\.save.*does not load"):
        load_model(tmp_path / "bad.pt", trust=True)


HIDDEN = "_signed"
"""An attribute that no code mentions by its name."""


class Scaled(Tensor):
    """A wrapper around two tensors, of which only products with it are known."""

    @staticmethod
    def __new__(cls, values: Tensor, scale: Tensor, signed: bool) -> "Scaled":
        return Tensor._make_wrapper_subclass(cls, values.shape, dtype=torch.float32)  # type: ignore[attr-defined, no-any-return]

    def __init__(self, values: Tensor, scale: Tensor, signed: bool) -> None:
        self._values, self._scale = values, scale
        setattr(self, HIDDEN, signed)

    def __tensor_flatten__(self) -> tuple[list[str], dict[str, Any]]:
        return ["_values", "_scale"], {"signed": getattr(self, HIDDEN)}

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, *sizes: Any) -> "Scaled":
        return Scaled(inner["_values"], inner["_scale"], context["signed"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return Scaled(args[0]._values, args[0]._scale, getattr(args[0], HIDDEN))
        plain = [a._values * a._scale * (1 if getattr(a, HIDDEN) else -1) if isinstance(a, Scaled) else a for a in args]
        return func(*plain, **(kwargs or {}))


def scaled(*, value: float = 1.0, scale: float = 2.0, signed: bool = True) -> nn.Module:
    model = nn.Linear(4, 3, bias=False)
    inner = Scaled(torch.arange(12.0).reshape(3, 4) + value, torch.tensor(scale), signed)
    model.weight = nn.Parameter(inner, requires_grad=False)
    return model.eval()


def test_a_tensor_around_others_is_known_by_them() -> None:
    models = [scaled(), scaled(value=2.0), scaled(scale=1.0), scaled(signed=False)]
    assert len({identify(model) for model in models}) == 4
    assert identify(scaled()) == identify(scaled())
    assert len({identify(model).weights for model in models}) == 3  # the last one differs in what is no tensor


def test_a_tensor_that_tells_nothing_is_refused_in_words() -> None:
    class Opaque(Tensor):
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.ops.aten.detach.default:
                return args[0]
            raise NotImplementedError(func)

    model = nn.Linear(4, 3, bias=False)
    model._parameters["weight"] = Tensor._make_wrapper_subclass(Opaque, (3, 4))  # type: ignore[attr-defined]
    with pytest.raises(UnusableModel, match=r"whose elements can be read, got one of class Opaque.*__tensor_flatten__"):
        identify(model)
