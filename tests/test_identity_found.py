"""Pairs of models that once shared an identity although they vote differently, and equal models that were once refused.

Beside those of `test_identity_pairs` and `test_identity_hidden`: values that code reaches by computed names, kinds of values that
compare equal by their contents, code that says it is Python's own.
"""

import collections
import functools
import operator
import random
import sys
import types
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import torch
from torch import Tensor, nn

import recert
from recert.errors import UnusableModel
from recert.models.digest import identify
from recert.sampling.network import Network
from tests.identity_kinds import Kinds
from tests.test_identity_hidden import HoldsFirst, HoldsRandom, with_forward
from tests.test_identity_pairs import Holds, HoldsApplied, from_source, in_module, linear

KINDS = Kinds()
told_apart, refused = KINDS.told_apart, KINDS.refused
KEPT: list[Any] = []
"""What must live as long as a model that only refers to it."""


class HoldsCalled(Holds):
    def factor(self) -> Any:
        return float(self.held(1.0))


class HoldsBy(Holds):
    def factor(self) -> Any:
        return self.held.by


def run(source: str, **scope: Any) -> dict[str, Any]:
    """What a text defines that is run without a name of a module: its classes say that they are of `builtins`."""
    exec(source, scope)
    return scope


# ---- contents that are equal, kinds that are not ----


@told_apart
def a_list_and_a_tuple(v: float) -> nn.Module:
    return HoldsIndex([0, 1] if v > 0 else (0, 1))


class HoldsIndex(Holds):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x)[self.held].sum() * torch.ones(3)
        return out


@told_apart
def a_set_and_a_frozen_set(v: float) -> nn.Module:
    return HoldsKind({1} if v > 0 else frozenset({1}))


class HoldsKind(Holds):
    def factor(self) -> Any:
        return 1.0 if isinstance(self.held, set) else -1.0


@told_apart
def an_array_without_dimensions_and_a_number(v: float) -> nn.Module:
    return HoldsGeneric(np.float64(2) if v > 0 else np.array(2.0))


class HoldsGeneric(Holds):
    def factor(self) -> Any:
        return 1.0 if isinstance(self.held, np.generic) else -1.0


@told_apart
def how_a_tensor_lies_in_memory_where_code_looks_at_it(v: float) -> nn.Module:
    values = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    return HoldsStrided(values if v > 0 else values.T.contiguous().T)


class HoldsStrided(Holds):
    def factor(self) -> Any:
        return self.held.as_strided((4,), (1,))[1]


@told_apart
def the_order_of_weights(v: float) -> nn.Module:
    model: nn.Module = with_forward("return x * next(iter(self.parameters()))")
    for name in ("plus", "minus") if v > 0 else ("minus", "plus"):
        model.register_parameter(name, nn.Parameter(torch.tensor(1.0 if name == "plus" else -1.0)))
    return model


@told_apart
def the_order_of_buffers(v: float) -> nn.Module:
    model: nn.Module = with_forward("return x * next(iter(self.buffers()))")
    for name in ("plus", "minus") if v > 0 else ("minus", "plus"):
        model.register_buffer(name, torch.tensor(1.0 if name == "plus" else -1.0))
    return model


# ---- names that code computes ----

SCALE = "def scale(x):\n    return x * BY\n"


@told_apart
def a_name_that_the_model_holds(v: float) -> nn.Module:
    source = "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.act = NAME\n    def forward(self, x):\n        return getattr(helpers, self.act)(x)\n"
    model: nn.Module = from_source(source, helpers=in_module("user_helpers", SCALE, BY=v), NAME="scale")()
    return model


@told_apart
def a_name_with_dots(v: float) -> nn.Module:
    model: nn.Module = with_forward(
        "return x * get(helpers)", helpers=in_module("user_helpers", "", BY=v), get=operator.attrgetter("BY.real")
    )
    return model


@told_apart
def a_name_that_is_put_together(v: float) -> nn.Module:
    helpers = in_module("user_helpers", "def act_1(x):\n    return x * BY\n", BY=v)
    model: nn.Module = with_forward("return getattr(helpers, f'act_{len(x) // 8}')(x)", helpers=helpers)
    return model


@told_apart
def the_variables_of_a_module(v: float) -> nn.Module:
    model: nn.Module = with_forward(
        "return x * vars(helpers)['B' + 'YZ'[0]]", helpers=in_module("user_helpers", "", BY=v)
    )
    return model


@told_apart
def the_dictionary_of_a_module(v: float) -> nn.Module:
    helpers = in_module("user_helpers", "", BY=v)
    model: nn.Module = with_forward("return x * helpers.__dict__['B' + 'YZ'[0]]", helpers=helpers)
    return model


@told_apart
def a_name_in_a_set(v: float) -> nn.Module:
    source = "class Model(nn.Module):\n    names = {'BY'}\n    def forward(self, x):\n        return x * [getattr(helpers, n) for n in self.names][0]\n"
    model: nn.Module = from_source(source, helpers=in_module("user_helpers", "", BY=v))()
    return model


@told_apart
def a_module_that_is_imported_by_a_string(v: float) -> nn.Module:
    sys.modules["user_helpers"] = in_module("user_helpers", "", BY=v)
    model: nn.Module = with_forward("import importlib; return x * importlib.import_module('user_helpers').BY")
    return model


@told_apart
def a_module_that_is_looked_up(v: float) -> nn.Module:
    sys.modules["user_helpers"] = in_module("user_helpers", "", BY=v)
    model: nn.Module = with_forward("import sys; return x * sys.modules['user_helpers'].BY")
    return model


@refused
def a_module_with_a_computed_name(v: float) -> nn.Module:
    sys.modules["user_helpers"] = in_module("user_helpers", "", BY=v)
    model: nn.Module = with_forward(
        "import importlib; return x * importlib.import_module('user' + '_helpers'[:len(x) + 9]).BY"
    )
    return model


@told_apart
def what_a_module_makes_when_it_is_asked(v: float) -> nn.Module:
    helpers = in_module("user_helpers", "def __getattr__(name):\n    return {'by': BY}[name.lower()]\n", BY=v)
    model: nn.Module = with_forward("return x * helpers.By", helpers=helpers)
    return model


@told_apart
def a_global_with_four_underscores(v: float) -> nn.Module:
    model: nn.Module = with_forward("return x * __scale__", __scale__=v)
    return model


@told_apart
def a_name_with_four_underscores_in_a_module(v: float) -> nn.Module:
    helpers = in_module("user_helpers", "", __scale__=v)
    model: nn.Module = with_forward("return x * helpers.__scale__", helpers=helpers)
    return model


@told_apart
def a_counter_that_is_read_with_all_attributes(v: float) -> nn.Module:
    source = (
        "class Model(nn.Module):\n    def grow(self):\n        self.calls += 1\n"
        "    def forward(self, x):\n        return x * [y for n, y in vars(self).items() if n[:2] == 'ca'][0]\n"
    )
    model: nn.Module = from_source(source)()
    model.calls = v  # type: ignore[assignment]
    return model


# ---- code that seems to be Python's or torch's own ----


@told_apart
def a_file_with_the_name_of_one_of_pythons(v: float) -> nn.Module:
    """`profile.py` beside a script hides Python's own."""
    model: nn.Module = hiding_profile(
        f"class Net(nn.Module):\n    by = {v}\n    def forward(self, x):\n        return x * self.by\n"
    ).Net()
    return model


@told_apart
def a_helper_in_a_file_with_the_name_of_one_of_pythons(v: float) -> nn.Module:
    model: nn.Module = with_forward(
        "return profile.scale(x)", profile=hiding_profile(f"def scale(x):\n    return x * {v}\n")
    )
    return model


@told_apart
def a_function_of_a_file_with_the_name_of_one_of_pythons(v: float) -> nn.Module:
    return HoldsApplied(hiding_profile(f"def scale(x):\n    return x * {v}\n").scale)


def hiding_profile(source: str) -> types.ModuleType:
    module = types.ModuleType("profile")
    vars(module).update(nn=nn, __file__="/home/me/work/profile.py")
    sys.modules["profile"] = module
    exec(source, vars(module))
    return module


@pytest.fixture(autouse=True)
def what_was_imported() -> Iterator[None]:
    before = {name: sys.modules.get(name) for name in ("profile", "user_helpers")}
    yield
    for name, module in before.items():
        if module is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = module


@told_apart
def a_class_from_a_text_that_was_run(v: float) -> nn.Module:
    source = f"class Model(nn.Module):\n    scale = {v}\n    def forward(self, x):\n        return x * self.scale\n"
    model: nn.Module = run(source, nn=nn)["Model"]()
    return model


@told_apart
def an_object_of_such_a_class(v: float) -> nn.Module:
    return HoldsBy(run(f"class Settings:\n    by = {v}\n")["Settings"]())


@told_apart
def functions_with_one_code_that_take_other_arguments(v: float) -> nn.Module:
    one, other = (lambda *a: a[0]), (lambda a: a[0])  # in one line: their sources cannot be told apart
    return HoldsApplied(one if v > 0 else other)


@refused
def a_forward_that_was_put_into_a_module_of_torch(v: float) -> nn.Module:
    model, held = linear(), HoldsRandom(random.Random(str(v)))
    plain = model.forward
    model.forward = lambda x: plain(x) * held.factor()  # type: ignore[method-assign, assignment]
    return model


@told_apart
def what_a_hook_reads_from_a_module_of_torch(v: float) -> nn.Module:
    model: Any = linear()
    model.factors = collections.deque([v])
    model.register_forward_hook(lambda module, given, out: out * module.factors[0])
    module: nn.Module = model
    return module


@refused
def what_a_hook_reads_from_a_module_of_torch_and_cannot_be_seen(v: float) -> nn.Module:
    model: Any = linear()
    model.octets = bytearray([1 if v > 0 else 2])
    model.register_forward_hook(lambda module, given, out: out * module.octets[0])
    module: nn.Module = model
    return module


@told_apart
def a_forward_of_another_module_of_torch(v: float) -> nn.Module:
    """As `nn.Hardswish.forward = nn.ReLU.forward`, which would outlast the test."""
    kind: Any = type("Hardswish", (nn.Hardswish,), {"__module__": "torch.nn.modules.activation"})
    kind.forward = nn.Softsign.forward if v > 0 else nn.Tanhshrink.forward
    return nn.Sequential(linear(), kind())


@told_apart
def what_is_called_in_place_of_a_module(v: float) -> nn.Module:
    model: Any = linear()
    plain = model.forward
    model._compiled_call_impl = lambda x: plain(x) * v
    module: nn.Module = model
    return module


@told_apart
def an_attribute_with_the_name_of_one_of_ours(v: float) -> nn.Module:
    model: nn.Module = with_forward("return x * self._made_by")
    model._made_by = v  # type: ignore[assignment]
    return model


@told_apart
def what_a_class_of_the_users_calls_no_part_of_its_identity(v: float) -> nn.Module:
    source = "class Model(nn.Module):\n    not_identity = ('scale',)\n    def forward(self, x):\n        return x * self.scale\n"
    model: nn.Module = from_source(source)()
    model.scale = v  # type: ignore[assignment]
    return model


# ---- classes of the user's own, of kinds that are usually not ----


@told_apart
def a_method_of_an_enum(v: float) -> nn.Module:
    source = f"import enum\nclass Kind(enum.Enum):\n    PLAIN = 1\n    def __call__(self, x):\n        return {v}\n"
    return Holds(run(source, __name__="user_code")["Kind"].PLAIN)


@told_apart
def an_attribute_of_an_enum(v: float) -> nn.Module:
    source = f"import enum\nclass Kind(enum.Enum):\n    PLAIN = 1\n    def __init__(self, number):\n        self.by = OF[number] * {v}\n"
    return HoldsBy(run(source, __name__="user_code", OF={1: 1.0})["Kind"].PLAIN)


@told_apart
def a_kind_of_partial(v: float) -> nn.Module:
    source = f"import functools\nclass Kind(functools.partial):\n    def __call__(self, x):\n        return super().__call__(x) * {v}\n"
    return HoldsApplied(run(source, __name__="user_code")["Kind"](torch.abs))


@told_apart
def a_kind_of_property(v: float) -> nn.Module:
    source = (
        f"class Kind(property):\n    def __get__(self, owner, kind=None):\n        return {v}\n\n"
        "class Model(nn.Module):\n    @Kind\n    def by(self):\n        return 1\n    def forward(self, x):\n        return x * self.by\n"
    )
    model: nn.Module = from_source(source)()
    return model


@told_apart
def a_property_of_enums(v: float) -> nn.Module:
    source = (
        "import types\nclass Model(nn.Module):\n    @types.DynamicClassAttribute\n    def by(self):\n        return {v}\n"
        "    def forward(self, x):\n        return x * self.by\n"
    )
    model: nn.Module = from_source(source.format(v=v))()
    return model


# ---- functions that are compiled ----


@told_apart
def a_function_of_numba(v: float) -> nn.Module:
    return HoldsCalled(numba.njit(lambda a: a * v))


@told_apart
def a_global_function_of_numba(v: float) -> nn.Module:
    compiled = numba.njit(run(f"def scale(a):\n    return a * {v}\n")["scale"])
    model: nn.Module = with_forward("return x * scale(1.0)", scale=compiled)
    return model


@told_apart
def a_function_of_numpy(v: float) -> nn.Module:
    return HoldsCalled(np.sin if v > 0 else np.tan)


@refused
def a_function_that_numpy_was_given(v: float) -> nn.Module:
    return HoldsCalled(np.frompyfunc(lambda a: a * v, 1, 1))


@refused
def an_operator_that_is_called_by_its_name(v: float) -> nn.Module:
    KEPT.clear()  # the operators of the model before are gone with their library
    library = torch.library.Library("users_operators", "FRAGMENT")
    library.define("turn(Tensor x) -> Tensor")
    library.impl("turn", (lambda x: x * 1.0) if v > 0 else (lambda x: x * -1.0), "CPU")
    KEPT.append(library)
    model: nn.Module = with_forward("return torch.ops.users_operators.turn(x)")
    return model


@told_apart
def a_large_constant_in_a_part_of_a_traced_module(v: float) -> nn.Module:
    module: nn.Module = torch.jit.trace(nn.Sequential(linear(), TimesFirst(v)).eval(), torch.zeros(2, 4))  # type: ignore[no-untyped-call]
    return module


class TimesFirst(nn.Module):
    def __init__(self, v: float) -> None:
        super().__init__()
        self.held = [torch.cat([torch.full((3,), v), torch.ones(2_000)])]  # more than the text of a graph shows

    def forward(self, x: Tensor) -> Tensor:
        return x * self.held[0][:3]


@told_apart
def a_forward_in_place_of_that_of_a_script(v: float) -> nn.Module:
    module: nn.Module = torch.jit.script(linear())
    module.__dict__["forward"] = lambda x: torch.ones(len(x), 3) * v
    return module


# ---- that need no name any more ----


@told_apart
def a_weak_reference(v: float) -> nn.Module:
    KEPT.append(torch.tensor(v))
    held = weakref.ref(KEPT[-1])
    return Holds(lambda x: held())


@told_apart
def a_queue(v: float) -> nn.Module:
    return HoldsFirst(collections.deque([v]))


@told_apart
def a_function_that_is_chosen_by_type(v: float) -> nn.Module:
    chosen = functools.singledispatch(lambda x: x)
    chosen.register(Tensor, (lambda x: x * 1.0) if v > 0 else (lambda x: x * -1.0))
    return HoldsApplied(chosen)


@told_apart
def what_picks_columns(v: float) -> nn.Module:
    return HoldsApplied(operator.itemgetter((slice(None), [0, 1] if v > 0 else [1, 0])))


@told_apart
def a_method_called_by_its_name(v: float) -> nn.Module:
    return HoldsApplied(operator.methodcaller("abs" if v > 0 else "neg"))


@told_apart
def the_type_of_an_array(v: float) -> nn.Module:
    return HoldsType(np.dtype("float32" if v > 0 else "int8"))


class HoldsType(Holds):
    def factor(self) -> Any:
        return float(np.asarray(1.7).astype(self.held))


@pytest.mark.parametrize("name", KINDS.names)
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_models_that_vote_differently_do_not_share_an_identity(name: str) -> None:
    KINDS.check(name)


# ---- models that are equal, and are not refused ----


class Keeps(nn.Module):
    """A network that notes something with every call."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(4, 3)
        self.calls = 0
        self.mask: Tensor | None = None
        self.last: Tensor | None = None
        self.eval()


class CountsBySum(Keeps):
    def forward(self, x: Tensor) -> Tensor:
        self.calls = self.calls + len(x)
        out: Tensor = self.linear(x)
        return out


class MakesAMaskAtFirst(Keeps):
    def forward(self, x: Tensor) -> Tensor:
        if self.mask is None:
            self.mask = torch.ones(4)
        out: Tensor = self.linear(x * self.mask)
        return out


class MakesAMaskOnce(Keeps):
    @functools.cached_property
    def ones(self) -> Tensor:
        return torch.ones(4)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x * self.ones)
        return out


class HoldsAHandle(Keeps):
    def __init__(self) -> None:
        super().__init__()
        self.handle = self.linear.register_forward_hook(self.look)

    def look(self, module: nn.Module, given: Any, out: Tensor) -> None:
        assert out.isfinite().all()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x)
        return out


class NotesItsArguments(Keeps):
    def __init__(self, width: int = 3) -> None:
        self.noted = {"width": locals()["width"]}
        super().__init__()

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value) if name == "noted" else super().__setattr__(name, value)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x)
        return out


class LeadsBackThroughASet(Keeps):
    def __init__(self) -> None:
        super().__init__()
        self.owner = types.SimpleNamespace()
        self.owner.members = {Member(self.owner)}

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x)
        return out


class Member:
    def __init__(self, owner: Any) -> None:
        self.owner = owner


HARMLESS = [CountsBySum, MakesAMaskAtFirst, MakesAMaskOnce, HoldsAHandle, NotesItsArguments, LeadsBackThroughASet]
INPUTS = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


@pytest.mark.parametrize("kind", HARMLESS, ids=lambda kind: kind.__name__)
def test_a_store_is_continued_with_the_used_and_with_a_fresh_model(kind: type[Keeps], tmp_path: Path) -> None:
    model, options = kind(), {"noise": recert.Gaussian(0.5), "store": tmp_path / "store", "batch_size": 64}
    recert.certify(model, INPUTS, samples=200, **options)  # type: ignore[arg-type]
    for each, samples in ((model, 300), (kind(), 400)):
        assert recert.certify(each, INPUTS, samples=samples, **options).manifest.samples == samples  # type: ignore[arg-type]


def test_a_program_with_checks_of_shapes_has_an_identity() -> None:
    programs = [torch.export.export(linear().eval(), (torch.zeros(8, 4),)).module() for _ in range(2)]
    assert identify(programs[0]).nameless is None
    assert identify(programs[0]) == identify(programs[1])


class KeepsTheLast(Keeps):
    def forward(self, x: Tensor) -> Tensor:
        self.last = self.linear(x)
        return self.last


def test_what_changes_in_a_model_is_named() -> None:
    with pytest.raises(UnusableModel, match=r"was changed while .*its methods assign last\)"):
        recert.certify(KeepsTheLast(), INPUTS, noise=recert.Gaussian(0.5), samples=200, batch_size=64)


# ---- installed packages ----


def test_versions_of_packages_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their helper functions are no part of the identity: another version needs allow_numerics, as one of torch does."""
    package = tmp_path / "site-packages" / "shipped_nets"
    package.mkdir(parents=True)
    source = "from torch import nn\n__version__ = '1.0'\nclass Net(nn.Linear):\n    pass\n"
    (package / "__init__.py").write_text(source)
    monkeypatch.syspath_prepend(str(package.parent))
    import shipped_nets  # type: ignore[import-not-found]

    def certify(samples: int, **options: Any) -> recert.Cache:
        torch.manual_seed(0)
        net, noise = shipped_nets.Net(4, 3).eval(), recert.Gaussian(0.5)
        return recert.certify(
            net, INPUTS, noise=noise, samples=samples, store=tmp_path / "store", execution=recert.Execution(**options)
        )

    assert certify(200).manifest.numerics.text("packages") == "shipped_nets 1.0"
    shipped_nets.__version__ = "1.1"
    with pytest.raises(recert.RecertError, match=r"shipped_nets 1\.0.*shipped_nets 1\.1"):
        certify(300)
    assert certify(300, allow_numerics=True).manifest.samples == 300
    assert "packages" not in Network(linear().eval()).numerics(8).values


def test_stores_from_before_packages_were_recorded_are_continued() -> None:
    before, now = (recert.Numerics.from_text({"device": "cpu", **more}) for more in ({}, {"packages": "timm 1.0"}))
    assert now.not_seen_in(before) == []
    assert before.not_seen_in(now) == ["packages"]
