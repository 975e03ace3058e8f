"""Values that decide votes from places where few look: each pair of models votes differently, and must not share an identity.

Of these, those that are `refused` cannot be looked into and need a name; all others must be told apart without one.
"""

import collections
import functools
import random
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from recert.models.digest import identify
from tests.identity_kinds import Kinds
from tests.test_identity_pairs import (
    Holds,
    HoldsApplied,
    HoldsList,
    HoldsSet,
    Times,
    from_source,
    in_module,
    linear,
    scaled_by,
)

KINDS = Kinds()
told_apart, refused = KINDS.told_apart, KINDS.refused


def with_forward(body: str, **scope: Any) -> Any:
    return from_source(f"class Model(nn.Module):\n    def forward(self, x):\n        {body}\n", **scope)()


# ---- functions ----


@told_apart
def an_attribute_of_a_function(v: float) -> nn.Module:
    def scale(x: Tensor) -> Any:
        return scale.by  # type: ignore[attr-defined]

    scale.by = v  # type: ignore[attr-defined]
    return Holds(scale)


@told_apart
def a_wrapper_with_the_names_of_torch(v: float) -> nn.Module:
    @functools.wraps(F.relu)
    def relu(x: Tensor) -> Tensor:
        return F.relu(x) * v + v

    return HoldsApplied(relu)


@told_apart
def a_cached_function(v: float) -> nn.Module:
    @functools.lru_cache
    def by() -> float:
        return v

    return Holds(lambda x: by())


@told_apart
def a_partial_of_a_partial_with_a_tensor(v: float) -> nn.Module:
    return Holds(functools.partial(functools.partial(scaled_by), by=torch.tensor(v)))


@told_apart
def a_compiled_function(v: float) -> nn.Module:
    return HoldsApplied(torch.compile(lambda x: x * v, backend="eager"))


@told_apart
def a_file_that_was_edited_after_it_was_imported(v: float) -> nn.Module:
    """What the file shows now is `x - 5.0` in both, and compiles to the same constants and names."""
    file = Path(__file__).with_name("edited.py")
    source = "class Model(nn.Module):\n    def forward(self, x):\n        return x {} 5.0\n"
    scope: dict[str, Any] = {"nn": nn, "__name__": "user_code"}
    exec(compile(source.format("+" if v > 0 else "-"), str(file), "exec"), scope)
    import linecache

    shown = source.format("-")
    linecache.cache[str(file)] = (len(shown), None, shown.splitlines(keepends=True), str(file))
    model: nn.Module = scope["Model"]()
    return model


# ---- modules of the user's own ----


@told_apart
def a_module_inside_a_package(v: float) -> nn.Module:
    package = in_module("package", "", inner=in_module("package.inner", "def scale(x):\n    return x * BY\n", BY=v))
    model: nn.Module = with_forward("return package.inner.scale(x)", package=package)
    return model


@told_apart
def an_import_inside_a_function(v: float) -> nn.Module:
    sys.modules["user_helpers"] = in_module("user_helpers", "def scale(x):\n    return x * BY\n", BY=v)
    model: nn.Module = with_forward("from user_helpers import scale; return scale(x)")
    return model


@told_apart
def an_import_inside_a_function_with_another_name(v: float) -> nn.Module:
    sys.modules["user_helpers"] = in_module("user_helpers", "def scale(x):\n    return x * BY\n", BY=v)
    model: nn.Module = with_forward("import user_helpers as helpers; return helpers.scale(x)")
    return model


@told_apart
def a_module_in_an_attribute(v: float) -> nn.Module:
    return HoldsModule(in_module("user_helpers", "", BY=v))


class HoldsModule(Holds):
    def factor(self) -> Any:
        return self.held.BY


@told_apart
def a_module_that_is_passed_on(v: float) -> nn.Module:
    source = "def apply(module, x):\n    return x * module.BY\n\nclass Model(nn.Module):\n    def forward(self, x):\n        return apply(helpers, x)\n"
    model: nn.Module = from_source(source, helpers=in_module("user_helpers", "", BY=v))()
    return model


@told_apart
def a_name_in_a_string(v: float) -> nn.Module:
    model: nn.Module = with_forward("return x * getattr(helpers, 'BY')", helpers=in_module("user_helpers", "", BY=v))
    return model


@told_apart
def a_dictionary_of_another_module(v: float) -> nn.Module:
    table = in_module("user_table", "", table={"a": {"b": torch.tensor(v)}})
    model: nn.Module = with_forward("return x * user_table.table['a']['b']", user_table=table)
    return model


# ---- objects ----


class Factor(float):
    pass


class Word(str):
    pass


class Octets(bytearray):
    pass


class Private:
    __slots__ = ("__by",)

    def __init__(self, by: float) -> None:
        self.__by = by

    def __call__(self, x: Tensor) -> float:
        return self.__by


class HoldsFirst(Holds):
    def factor(self) -> Any:
        return self.held[0]


@told_apart
def a_number_of_a_class_of_its_own(v: float) -> nn.Module:
    return Holds(Factor(v))


@told_apart
def a_string_of_a_class_of_its_own(v: float) -> nn.Module:
    return HoldsSet(Word("negate" if v < 0 else "keep"))


@told_apart
def a_private_slot(v: float) -> nn.Module:
    return Holds(Private(v))


@told_apart
def a_default_of_a_dictionary(v: float) -> nn.Module:
    return HoldsDefault(collections.defaultdict((lambda: 1.0) if v > 0 else (lambda: -1.0)))


class HoldsDefault(Holds):
    def factor(self) -> Any:
        return self.held.default_factory()


@told_apart
def the_mask_of_an_array(v: float) -> nn.Module:
    return HoldsFilled(np.ma.masked_array([1.0], mask=[True], fill_value=v))


class HoldsFilled(Holds):
    def factor(self) -> Any:
        return float(self.held.filled()[0])


@told_apart
def numbers_of_numpy_in_a_tuple(v: float) -> nn.Module:
    return HoldsFirst((np.float32(v), np.float32(1)))


@told_apart
def where_a_cycle_leads(v: float) -> nn.Module:
    one, other = types.SimpleNamespace(by=1.0), types.SimpleNamespace(by=-1.0)
    one.inner, other.up = other, one if v > 0 else other
    return HoldsCycle(one)


class HoldsCycle(Holds):
    def factor(self) -> Any:
        return self.held.inner.up.by


@refused
def a_subclass_of_a_class_in_c(v: float) -> nn.Module:
    return HoldsFirst(Octets([1 if v > 0 else 2]))


@refused
def a_generator_of_python(v: float) -> nn.Module:
    return HoldsRandom(random.Random(str(v)))


class HoldsRandom(Holds):
    def factor(self) -> Any:
        return random.Random.getstate(self.held)[1][5] / 2**32


@refused
def globals_by_name(v: float) -> nn.Module:
    model: nn.Module = with_forward("return x * globals()['SC' + 'ALE']", SCALE=v)
    return model


@refused
def a_scripted_function(v: float) -> nn.Module:
    if v > 0:
        return HoldsApplied(torch.jit.script(times_one))
    return HoldsApplied(torch.jit.script(times_minus_one))


def times_one(x: Tensor) -> Tensor:
    return x * 1.0


def times_minus_one(x: Tensor) -> Tensor:
    return x * -1.0


# ---- tensors ----


class OwnTensor(torch.Tensor):
    pass


class HoldsTensor(Holds):
    def factor(self) -> Any:
        return self.held.by


@told_apart
def an_attribute_of_a_tensor(v: float) -> nn.Module:
    tensor: Any = torch.ones(3)
    tensor.by = v
    return HoldsTensor(tensor)


@told_apart
def an_attribute_of_a_tensor_of_a_class_of_its_own(v: float) -> nn.Module:
    tensor: Any = torch.ones(3).as_subclass(OwnTensor)
    tensor.by = v
    return HoldsTensor(tensor)


@told_apart
def an_attribute_of_a_parameter(v: float) -> nn.Module:
    model = HoldsWeight(1.0)
    model.linear.weight.by = v  # type: ignore[attr-defined]
    return model


class HoldsWeight(Holds):
    def factor(self) -> Any:
        return self.linear.weight.by


@told_apart
def a_sparse_tensor(v: float) -> nn.Module:
    return HoldsSparse((torch.eye(3) * v).to_sparse())


class HoldsSparse(Holds):
    def forward(self, x: Tensor) -> Tensor:
        return torch.sparse.mm(self.held, self.linear(x).T).T


# ---- modules of torch ----


@told_apart
def the_mode_of_a_module_in_a_list(v: float) -> nn.Module:
    return HoldsFirst([InMode().train(v < 0)])


class InMode(nn.Module):
    def __call__(self, x: Tensor) -> float:
        return -1.0 if self.training else 1.0


@told_apart
def a_counter_that_a_helper_reads(v: float) -> nn.Module:
    source = (
        "def helper(model, x):\n    return x * model.calls\n\nclass Model(nn.Module):\n"
        "    def grow(self):\n        self.calls += 1\n    def forward(self, x):\n        return helper(self, x)\n"
    )
    model: nn.Module = from_source(source)()
    model.calls = v  # type: ignore[assignment]
    return model


@told_apart
def a_counter_that_torch_reads(v: float) -> nn.Module:
    model: nn.Module = from_source(
        "class Model(nn.LeakyReLU):\n    def grow(self):\n        self.negative_slope += 1\n"
    )()
    model.negative_slope = v  # type: ignore[assignment]
    return model


@told_apart
def a_scripted_number(v: float) -> nn.Module:
    module: nn.Module = torch.jit.script(Times(v))
    return module


class TimesTensor(nn.Module):
    def __init__(self, by: float) -> None:
        super().__init__()
        self.linear = linear()
        self.by = [torch.tensor(by)]

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x) * self.by[0]
        return out


@told_apart
def a_scripted_list(v: float) -> nn.Module:
    module: nn.Module = torch.jit.script(TimesTensor(v))
    return module


@told_apart
def a_scripted_module_in_a_list(v: float) -> nn.Module:
    inner = nn.Linear(4, 3, bias=False)
    nn.init.constant_(inner.weight, v)
    return HoldsList([torch.jit.script(inner)])


@told_apart
def a_forward_of_a_graph_that_was_replaced(v: float) -> nn.Module:
    model: Any = torch.fx.symbolic_trace(Times(1.0))
    plain = model.forward
    model.forward = lambda x: plain(x) * v
    module: nn.Module = model
    return module


@told_apart
def a_parametrised_class(v: float) -> nn.Module:
    source = "class Model(nn.Linear):\n    def forward(self, x):\n        return super().forward(x) * {v}\n"
    torch.manual_seed(0)
    model: nn.Module = from_source(source.format(v=v))(4, 3)
    parametrize.register_parametrization(model, "weight", nn.Identity())
    return model


@told_apart
def an_attribute_of_a_metaclass(v: float) -> nn.Module:
    source = "class Model(nn.Module, metaclass=Meta):\n    def forward(self, x):\n        return x * type(self).by\n"
    model: nn.Module = from_source(source, Meta=type("Meta", (type,), {"by": v}))()
    return model


@told_apart
def a_partial_method(v: float) -> nn.Module:
    source = (
        "import functools\nclass Model(nn.Module):\n    def scaled(self, x, by):\n        return x * by\n"
        "    forward = functools.partialmethod(scaled, by={v})\n"
    )
    model: nn.Module = from_source(source.format(v=v))()
    return model


@told_apart
def a_method_of_torch_that_was_replaced(v: float) -> nn.Module:
    """A class that says it is torch's stands for one that was changed: a change of torch's own would outlast the test."""
    kind: Any = type("Hardswish", (nn.Hardswish,), {"__module__": "torch.nn.modules.activation"})
    kind.forward = lambda self, x: x * v
    return nn.Sequential(linear(), kind())


@told_apart
def a_call_of_its_own(v: float) -> nn.Module:
    model: nn.Module = from_source(
        f"class Model(nn.Module):\n    def __call__(self, x):\n        return x * {v}\n    def forward(self, x):\n        return x\n"
    )()
    return model


@told_apart
def a_hook_with_keywords(v: float) -> nn.Module:
    model = linear()
    model.register_forward_hook(lambda module, given, named, out: out * v, with_kwargs=True)
    return model


@told_apart
def a_hook_that_takes_whatever_it_gets(v: float) -> nn.Module:
    model = linear()
    model.register_forward_hook(lambda *given: given[-1] * len(given), with_kwargs=v > 0)
    return model


@told_apart
def a_part_named_as_that_of_torch_compile(v: float) -> nn.Module:
    model = Wrapper()
    nn.init.constant_(model.weight, v)
    return model


class Wrapper(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 4))
        self._orig_mod = linear()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self._orig_mod(x) + x @ self.weight.T
        return out


@told_apart
def a_parametrisation_of_torch(v: float) -> nn.Module:
    model: Any = nn.utils.parametrizations.weight_norm(linear())
    with torch.no_grad():
        model.parametrizations.weight.original0.mul_(v)
    module: nn.Module = model
    return module


@pytest.mark.parametrize("name", KINDS.names)
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_models_that_vote_differently_do_not_share_an_identity(name: str) -> None:
    KINDS.check(name)


def test_a_compiled_function_is_the_plain_one() -> None:
    def twice(x: Tensor) -> Tensor:
        return x * 2

    assert identify(HoldsApplied(torch.compile(twice, backend="eager"))) == identify(HoldsApplied(twice))


def test_a_path_is_the_same_once_it_was_printed() -> None:
    path = Path("weights") / "best.pt"
    before = identify(Holds(path))
    str(path), hash(path)
    assert identify(Holds(path)) == before


def test_flags_that_libraries_put_on_weights_do_not_count() -> None:
    flagged = linear()
    flagged.weight._is_hf_initialized = True  # type: ignore[attr-defined]
    assert identify(flagged) == identify(linear())
