"""Pairs of models: those that vote differently have different identities, and those that do the same have one.

Every pair of the first kind is run on one batch, so that it is a fact that the two differ. KNOWN_BEFORE names the pairs that
the first edition told apart; all others had one identity there.
"""

import copy
import enum
import functools
import io
import linecache
import sys
import types
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn
from torch.nn.utils import parametrize

from recert.models.digest import identify

Make = Callable[[float], nn.Module]
"""A model of a number. With 1.0 and -1.0 it must be two models, or the same one twice: its list says which."""

DIFFERENT: dict[str, Make] = {}
SAME: dict[str, Callable[[], tuple[nn.Module, nn.Module]]] = {}


def different(make: Make) -> Make:
    DIFFERENT[make.__name__] = make
    return make


def same(make: Callable[[], tuple[nn.Module, nn.Module]]) -> Callable[[], tuple[nn.Module, nn.Module]]:
    SAME[make.__name__] = make
    return make


class Holds(nn.Module):
    """A linear network that calls or multiplies by whatever it holds in a plain attribute."""

    def __init__(self, held: Any = None, name: str = "held") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 3)
        self.name = name
        setattr(self, name, held)

    def factor(self) -> Any:
        return getattr(self, self.name)

    def forward(self, x: Tensor) -> Tensor:
        factor = self.factor()
        return self.linear(x) * (factor(x) if callable(factor) else factor)


def linear() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(4, 3)


def from_source(source: str, **scope: Any) -> Any:
    """The class Model of a source text that `inspect` can find, as it could in a file."""
    name = f"<model {hash(source)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    everything: dict[str, Any] = {"nn": nn, "torch": torch, "__name__": "user_code", **scope}
    exec(compile(source, name, "exec"), everything)
    return everything["Model"]


def in_module(name: str, source: str, **scope: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    vars(module).update(scope)
    exec(source, vars(module))
    return module


# ---- models that must differ: attributes by value ----


@different
def a_tensor_in_an_attribute(v: float) -> nn.Module:
    return Holds(torch.tensor([v, 1.0, 1.0]))


@different
def an_array_in_an_attribute(v: float) -> nn.Module:
    model = Holds(np.array([v, 1.0, 1.0], dtype=np.float32))
    model.factor = lambda: torch.from_numpy(model.held)  # type: ignore[method-assign, arg-type]
    return model


@different
def the_middle_of_a_long_array(v: float) -> nn.Module:
    values = torch.ones(3, 4_000)
    values[:, 2_000] = v  # not shown by repr
    return HoldsLong(values)


class HoldsLong(Holds):
    def factor(self) -> Any:
        return self.held[:, 2_000]


@different
def a_module_in_a_list(v: float) -> nn.Module:
    inner = nn.Linear(4, 3, bias=False)
    nn.init.constant_(inner.weight, v)
    return HoldsList([inner])


class HoldsList(Holds):
    def factor(self) -> Any:
        return self.held[0]


@different
def a_tensor_in_a_dictionary_in_a_list(v: float) -> nn.Module:
    return HoldsNested([{"scale": torch.tensor(v)}])


class HoldsNested(Holds):
    def factor(self) -> Any:
        return self.held[0]["scale"]


@dataclass
class Configuration:
    scale: float
    note: str = ""


class HoldsConfiguration(Holds):
    def factor(self) -> Any:
        return self.held.scale


@different
def a_configuration(v: float) -> nn.Module:
    return HoldsConfiguration(Configuration(v))


@different
def a_namespace(v: float) -> nn.Module:
    return HoldsConfiguration(types.SimpleNamespace(scale=v))


class Slotted:
    __slots__ = ("scale",)

    def __init__(self, scale: float) -> None:
        self.scale = scale


@different
def an_object_with_slots(v: float) -> nn.Module:
    return HoldsConfiguration(Slotted(v))


class Secretive:
    """Its repr says nothing of its value."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __repr__(self) -> str:
        return "Secretive()"


@different
def an_object_with_a_repr_of_its_own(v: float) -> nn.Module:
    return HoldsConfiguration(Secretive(v))


Pair = namedtuple("Pair", "scale other")


@different
def a_named_tuple(v: float) -> nn.Module:
    return HoldsConfiguration(Pair(torch.tensor(v), 0))


class Sign(enum.Enum):
    PLUS = 1
    MINUS = -1


class HoldsEnum(Holds):
    def factor(self) -> Any:
        return self.held.value


@different
def an_enum(v: float) -> nn.Module:
    return HoldsEnum(Sign(int(v)))


class HoldsSet(Holds):
    def factor(self) -> Any:
        return -1.0 if "negate" in self.held else 1.0


@different
def a_set(v: float) -> nn.Module:
    return HoldsSet({"negate", "a", "b"} if v < 0 else {"a", "b"})


@different
def a_frozen_set(v: float) -> nn.Module:
    return HoldsSet(frozenset({"negate"} if v < 0 else {"other"}))


@different
def a_name_with_an_underscore(v: float) -> nn.Module:
    return Holds(v, name="_scale")


@different
def a_name_with_two_underscores(v: float) -> nn.Module:
    return Holds(v, name="__scale")


@different
def a_plain_number(v: float) -> nn.Module:
    return Holds(v)


@different
def a_string(v: float) -> nn.Module:
    return HoldsSet("negate" if v < 0 else "keep")


@different
def an_ordered_dictionary(v: float) -> nn.Module:
    items = [("a", 1.0), ("b", -1.0)]
    return HoldsOrder(OrderedDict(items if v > 0 else items[::-1]))


class HoldsOrder(Holds):
    def factor(self) -> Any:
        return next(iter(self.held.values()))


@different
def a_number_of_numpy(v: float) -> nn.Module:
    return Holds(np.float64(v))


# ---- functions ----


@different
def a_lambda(v: float) -> nn.Module:
    return Holds((lambda x: 1.0) if v > 0 else (lambda x: -1.0))


@different
def a_closure_over_a_number(v: float) -> nn.Module:
    return Holds(lambda x: v)


@different
def a_closure_over_a_tensor(v: float) -> nn.Module:
    held = torch.tensor(v)
    return Holds(lambda x: held)


@different
def a_default_argument(v: float) -> nn.Module:
    def scale(x: Tensor, by: float = v) -> float:
        return by

    return Holds(scale)


def scaled_by(x: Tensor, by: float) -> float:
    return by


@different
def a_partial(v: float) -> nn.Module:
    return Holds(functools.partial(scaled_by, by=v))


@different
def a_function_of_torch(v: float) -> nn.Module:
    return HoldsApplied(torch.sin if v > 0 else torch.cos)


class HoldsApplied(Holds):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.held(self.linear(x))
        return out


@different
def a_bound_method(v: float) -> nn.Module:
    return Holds(Scaler(v).scale)


class Scaler:
    def __init__(self, by: float) -> None:
        self.by = by

    def scale(self, x: Tensor) -> float:
        return self.by

    def __call__(self, x: Tensor) -> float:
        return self.by


@different
def an_object_that_is_called(v: float) -> nn.Module:
    return Holds(Scaler(v))


@different
def a_forward_hook(v: float) -> nn.Module:
    model = linear()
    model.register_forward_hook(lambda module, inputs, output: output * v)
    return model


@different
def a_forward_pre_hook(v: float) -> nn.Module:
    model = linear()
    model.register_forward_pre_hook(lambda module, inputs: (inputs[0] * v,))
    return model


@different
def a_hook_of_a_child(v: float) -> nn.Module:
    model = nn.Sequential(linear())
    model[0].register_forward_hook(functools.partial(negated_if, v))
    return model


def negated_if(v: float, module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
    return output * v


@different
def a_forward_that_was_replaced(v: float) -> nn.Module:
    model = linear()
    plain = model.forward
    model.forward = lambda x: plain(x) * v  # type: ignore[method-assign, assignment]
    return model


@different
def a_method_that_was_replaced(v: float) -> nn.Module:
    model = Holds(1.0)
    model.factor = types.MethodType(lambda self: v, model)  # type: ignore[method-assign]
    return model


# ---- classes, globals, helper functions ----

WITH_CLASS_ATTRIBUTE = """
class Model(nn.Module):
    scale = {v}
    def forward(self, x):
        return x * self.scale
"""


@different
def an_attribute_of_the_class(v: float) -> nn.Module:
    model: nn.Module = from_source(WITH_CLASS_ATTRIBUTE.format(v=v))()
    return model


@different
def an_attribute_of_the_class_set_later(v: float) -> nn.Module:
    kind = from_source(WITH_CLASS_ATTRIBUTE.format(v=0))
    kind.scale = torch.tensor(v)
    model: nn.Module = kind()
    return model


@different
def an_attribute_of_a_base_class(v: float) -> nn.Module:
    base = type("Base", (nn.Module,), {"scale": v})
    model: nn.Module = from_source(
        "class Model(Base):\n    def forward(self, x):\n        return x * self.scale\n", Base=base
    )()
    return model


WITH_GLOBAL = "class Model(nn.Module):\n    def forward(self, x):\n        return x * SCALE\n"
WITH_HELPER = "class Model(nn.Module):\n    def forward(self, x):\n        return helper(x)\n"


@different
def a_global(v: float) -> nn.Module:
    model: nn.Module = from_source(WITH_GLOBAL, SCALE=v)()
    return model


@different
def a_global_tensor(v: float) -> nn.Module:
    model: nn.Module = from_source(WITH_GLOBAL, SCALE=torch.tensor(v))()
    return model


@different
def a_global_in_a_dictionary(v: float) -> nn.Module:
    source = "class Model(nn.Module):\n    def forward(self, x):\n        return x * SCALE['by']\n"
    model: nn.Module = from_source(source, SCALE={"by": v})()
    return model


@different
def a_helper_function(v: float) -> nn.Module:
    model: nn.Module = from_source(f"def helper(x):\n    return x * {v}\n\n{WITH_HELPER}")()
    return model


@different
def a_helper_of_a_helper(v: float) -> nn.Module:
    inner = f"def inner(x):\n    return x * {v}\n\ndef helper(x):\n    return inner(x)\n\n"
    model: nn.Module = from_source(f"{inner}{WITH_HELPER}")()
    return model


@different
def a_helper_of_another_module(v: float) -> nn.Module:
    helpers = in_module("user_helpers", "def scale(x):\n    return x * BY\n", BY=v)
    source = "class Model(nn.Module):\n    def forward(self, x):\n        return helpers.scale(x)\n"
    model: nn.Module = from_source(source, helpers=helpers)()
    return model


@different
def a_constant_of_another_module(v: float) -> nn.Module:
    source = "class Model(nn.Module):\n    def forward(self, x):\n        return x * helpers.BY\n"
    model: nn.Module = from_source(source, helpers=in_module("user_helpers", "", BY=v))()
    return model


@different
def a_property(v: float) -> nn.Module:
    source = "class Model(nn.Module):\n    @property\n    def by(self):\n        return {v}\n    def forward(self, x):\n        return x * self.by\n"
    model: nn.Module = from_source(source.format(v=v))()
    return model


@different
def a_static_method(v: float) -> nn.Module:
    source = "class Model(nn.Module):\n    @staticmethod\n    def by():\n        return {v}\n    def forward(self, x):\n        return x * self.by()\n"
    model: nn.Module = from_source(source.format(v=v))()
    return model


@different
def code_without_source(v: float) -> nn.Module:
    scope: dict[str, Any] = {"nn": nn, "__name__": "user_code"}
    exec(f"class Model(nn.Module):\n    def forward(self, x):\n        return x * {v}\n", scope)
    model: nn.Module = scope["Model"]()
    return model


@different
def a_function_with_a_gradient_of_its_own(v: float) -> nn.Module:
    source = (
        "class Own(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        return x * {v}\n\n"
        "class Model(nn.Module):\n    def forward(self, x):\n        return Own.apply(x)\n"
    )
    model: nn.Module = from_source(source.format(v=v))()
    return model


# ---- graphs, programs, wrappers ----


class Times(nn.Module):
    def __init__(self, by: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 3)
        self.by = by

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x) * self.by
        return out


@different
def an_fx_graph(v: float) -> nn.Module:
    return torch.fx.symbolic_trace(Times(v))


@different
def a_traced_module(v: float) -> nn.Module:
    module: nn.Module = torch.jit.trace(Times(v).eval(), torch.zeros(2, 4))  # type: ignore[no-untyped-call]
    return module


@different
def a_scripted_module(v: float) -> nn.Module:
    module: nn.Module = torch.jit.script(linear() if v > 0 else nn.Sequential(linear(), nn.Softmin(-1)))
    return module


@different
def an_exported_program(v: float) -> nn.Module:
    batch = torch.export.Dim("batch", min=1, max=1024)
    program = torch.export.export(Times(v).eval(), (torch.zeros(2, 4),), dynamic_shapes=({0: batch},))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file).module()


@different
def a_parametrised_weight(v: float) -> nn.Module:
    model = linear()
    parametrize.register_parametrization(model, "weight", Times2(v))
    return model


class Times2(nn.Module):
    def __init__(self, by: float) -> None:
        super().__init__()
        self._by = torch.tensor(by)

    def forward(self, weight: Tensor) -> Tensor:
        return weight * self._by


@different
def a_child_used_otherwise(v: float) -> nn.Module:
    return nn.Sequential(linear(), nn.Softmax(-1) if v > 0 else nn.Softmin(-1))


@different
def an_option_of_a_layer(v: float) -> nn.Module:
    return nn.Sequential(linear(), nn.LeakyReLU(v))


@different
def one_weight(v: float) -> nn.Module:
    model = linear()
    with torch.no_grad():
        model.weight[0, 0] = v
    return model


@different
def a_buffer_that_is_not_saved(v: float) -> nn.Module:
    model = Holds(1.0)
    del model.held
    model.register_buffer("held", torch.tensor(v), persistent=False)
    return model


@different
def the_order_of_children(v: float) -> nn.Module:
    parts = [("scale", nn.Softplus()), ("turn", nn.Tanhshrink())]
    return nn.Sequential(OrderedDict(parts if v > 0 else parts[::-1]))


KNOWN_BEFORE = {
    "a_plain_number", "a_string", "an_ordered_dictionary", "a_number_of_numpy", "a_function_of_torch", "a_property", "a_static_method",
    "code_without_source", "a_scripted_module", "a_child_used_otherwise", "an_option_of_a_layer", "one_weight",
    "a_buffer_that_is_not_saved", "the_order_of_children",
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENT)
def test_models_that_vote_differently_have_two_identities(name: str) -> None:
    plus, minus = DIFFERENT[name](1.0), DIFFERENT[name](-1.0)
    torch.manual_seed(1)
    batch = torch.randn(8, 4)
    assert not torch.equal(plus(batch), minus(batch))
    assert identify(plus) != identify(minus)
    assert identify(plus, "one name") != identify(
        minus, "one name"
    )  # a name is added to what is known, and hides nothing
    assert identify(plus).nameless is None


@pytest.mark.parametrize("name", DIFFERENT)
def test_the_same_model_made_twice_has_one_identity(name: str) -> None:
    assert identify(DIFFERENT[name](1.0)) == identify(DIFFERENT[name](1.0))


# ---- models that must not differ ----

PLAIN = "class Model(nn.Module):\n    def forward(self, x):\n        return x * 2\n"


def two(first: str, second: str, **scope: Any) -> tuple[nn.Module, nn.Module]:
    return from_source(first, **scope)(), from_source(second, **scope)()


@same
def comments() -> tuple[nn.Module, nn.Module]:
    return two(PLAIN, PLAIN.replace("return", "# twice\n        return"))


@same
def formatting() -> tuple[nn.Module, nn.Module]:
    return two(PLAIN, PLAIN.replace("x * 2", "(\n            x\n            * 2\n        )"))


@same
def docstrings() -> tuple[nn.Module, nn.Module]:
    return two(PLAIN, PLAIN.replace("Module):\n", 'Module):\n    """Doubles."""\n'))


@same
def annotations_of_the_class() -> tuple[nn.Module, nn.Module]:
    return two(PLAIN, PLAIN.replace("Module):\n", "Module):\n    x: int\n"))


@same
def lines_further_down_in_the_file() -> tuple[nn.Module, nn.Module]:
    return two(PLAIN, f"import os\n\n\n{PLAIN}")


@same
def the_module_that_the_class_is_in() -> tuple[nn.Module, nn.Module]:
    return from_source(PLAIN, __name__="__main__")(), from_source(PLAIN, __name__="package.networks")()


@same
def a_helper_of_a_module_with_another_name() -> tuple[nn.Module, nn.Module]:
    source = "class Model(nn.Module):\n    def forward(self, x):\n        return helpers.scale(x)\n"
    helper = "def scale(x):\n    return x * 2\n"
    one, other = (from_source(source, helpers=in_module(name, helper))() for name in ("helpers", "package.helpers"))
    return one, other


@same
def a_global_that_the_code_does_not_use() -> tuple[nn.Module, nn.Module]:
    return from_source(PLAIN, OTHER=1)(), from_source(PLAIN, OTHER=2)()


@same
def a_copy() -> tuple[nn.Module, nn.Module]:
    model = Holds(torch.tensor(2.0))
    return model, copy.deepcopy(model)


@same
def weights_that_were_loaded() -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(5)
    model, other = nn.Linear(4, 3), linear()
    model.load_state_dict(other.state_dict())
    return model, other


@same
def a_counter_that_nothing_reads() -> tuple[nn.Module, nn.Module]:
    source = (
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.calls = 0\n"
        "    def forward(self, x):\n        self.calls += 1\n        return x * 2\n"
    )
    used, fresh = two(source, source)
    used(torch.zeros(2, 4))
    return used, fresh


@same
def training_mode() -> tuple[nn.Module, nn.Module]:
    return linear().train(), linear().eval()


@same
def gradients() -> tuple[nn.Module, nn.Module]:
    trained = linear()
    trained(torch.ones(1, 4)).sum().backward()
    return trained, linear().requires_grad_(False)


@same
def a_backward_hook() -> tuple[nn.Module, nn.Module]:
    hooked = linear()
    hooked.register_full_backward_hook(lambda module, before, after: None)
    return hooked, linear()


@same
def a_hook_that_was_removed() -> tuple[nn.Module, nn.Module]:
    model = linear()
    model.register_forward_hook(lambda module, inputs, output: -output).remove()
    return model, linear()


@same
def torch_compile() -> tuple[nn.Module, nn.Module]:
    return torch.compile(linear()), linear()  # type: ignore[return-value]


@same
def torch_compile_of_a_child() -> tuple[nn.Module, nn.Module]:
    compiled = nn.Sequential(linear(), nn.ReLU())
    compiled[0] = torch.compile(compiled[0])  # type: ignore[assignment]
    return compiled, nn.Sequential(linear(), nn.ReLU())


@same
def torch_compile_in_place() -> tuple[nn.Module, nn.Module]:
    compiled = linear()
    compiled.compile()
    return compiled, linear()


@same
def the_order_of_a_set() -> tuple[nn.Module, nn.Module]:
    names = [f"n{i}" for i in range(50)]
    return HoldsSet(set(names)), HoldsSet({*names[::-1]})


@same
def memory_format() -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    model = nn.Conv2d(3, 4, 3)
    return model, copy.deepcopy(model).to(memory_format=torch.channels_last)  # type: ignore[call-overload]


@same
def a_view_of_a_tensor() -> tuple[nn.Module, nn.Module]:
    values = torch.arange(6.0).reshape(2, 3)
    return Holds(values.T.contiguous()), Holds(values.T)


@same
def a_logger() -> tuple[nn.Module, nn.Module]:
    import logging

    return Holds(logging.getLogger("one")), Holds(logging.getLogger("two"))


@same
def a_program_loaded_twice() -> tuple[nn.Module, nn.Module]:
    return an_exported_program(1.0), an_exported_program(1.0)


@same
def a_graph_traced_twice() -> tuple[nn.Module, nn.Module]:
    return a_traced_module(1.0), a_traced_module(1.0)


@pytest.mark.parametrize("name", SAME)
def test_models_that_do_the_same_have_one_identity(name: str) -> None:
    one, other = SAME[name]()
    assert identify(one) == identify(other)
    assert identify(one).nameless is None


def test_there_are_enough_pairs() -> None:
    assert len(DIFFERENT) >= 40
    assert DIFFERENT.keys() > KNOWN_BEFORE
    assert len(DIFFERENT) - len(KNOWN_BEFORE) >= 20
    assert len(SAME) >= 20


# ---- models without an identity ----


def test_what_cannot_be_looked_into_is_named() -> None:
    def unknown(held: Any) -> str:
        return identify(Holds(held)).nameless or ""

    iterator = iter([1, 2])
    assert "held" in unknown(iterator)
    assert "held" in unknown(lambda x: next(iterator))
    assert "list_iterator" in unknown(Configuration(iterator))  # type: ignore[arg-type]
    assert identify(Holds(iterator), "mine").nameless is None
    # Both hold numpy's generator: one is the package's own object, the other was made here.
    assert identify(Holds(stats.norm)).nameless is None
    assert "RandomState" in unknown(np.random.RandomState(0))


def test_a_class_is_the_same_in_a_script_and_when_imported(tmp_path: Path) -> None:
    """A cache made by `python network.py` can be extended by `recert certify --model network.py:build`."""
    import subprocess

    (tmp_path / "network.py").write_text(
        "import torch\nfrom torch import nn\nSCALE = 2\n\ndef double(x):\n    return x * SCALE\n\n"
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        torch.manual_seed(0)\n"
        "        self.linear = nn.Linear(4, 3)\n    def forward(self, x):\n        return double(self.linear(x))\n\n"
        "if __name__ == '__main__':\n    from recert.models.digest import identify\n    print(identify(Net()))\n"
    )
    (tmp_path / "other.py").write_text(
        "import network\nfrom recert.models.digest import identify\nprint(identify(network.Net()))\n"
    )
    shown = [
        subprocess.run([sys.executable, tmp_path / name], capture_output=True, text=True, check=True).stdout
        for name in ("network.py", "other.py")
    ]
    assert shown[0] == shown[1]
    assert "2-" in shown[0]
