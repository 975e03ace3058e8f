"""Values that code reaches by ways that it does not show, or that lie where a model's attributes are not: each pair votes differently.

Those that are `refused` need a name; all others must be told apart. Beside `test_identity_hidden` and `test_identity_found`.
"""

import abc
import builtins
import collections
import dataclasses
import enum
import functools
import importlib
import inspect
import logging
import operator
import pathlib
import pkgutil
import pydoc
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recert.errors import UnusableModel
from recert.models import walk
from recert.models.digest import identify
from recert.models.inference import prepare
from tests.identity_kinds import Kinds
from tests.test_identity_hidden import with_forward
from tests.test_identity_pairs import Holds, HoldsApplied, Times, from_source, in_module, linear

KINDS = Kinds()
told_apart, refused = KINDS.told_apart, KINDS.refused
SOFTSIGN, SOFTMAX, ADD = F.softsign, F.softmax, Tensor.__add__
KEPT: list[Any] = []
"""What must live as long as a model that only refers to it."""


def asks(body: str, held: Any = None, **scope: Any) -> nn.Module:
    """A model with one attribute, `held`, and a `forward` of one line."""
    model: nn.Module = with_forward(body, **scope)
    model.held = held
    return model


def helpers(**held: Any) -> types.ModuleType:
    sys.modules["user_helpers"] = in_module("user_helpers", "", **held)
    return sys.modules["user_helpers"]


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """Nothing that was put into modules and classes of others outlasts a test."""
    owners = (builtins, torch.nn.functional, np, Tensor, nn.Softsign)
    before = [dict(vars(owner)) for owner in owners]
    module = sys.modules.get("user_helpers")
    yield
    for owner, was in zip(owners, before, strict=True):
        for name in vars(owner).keys() - was.keys():
            delattr(owner, name)
        for name in [name for name, value in vars(owner).items() if was[name] is not value]:
            setattr(owner, name, was[name])
    sys.modules.pop("user_helpers", None)
    if module is not None:
        sys.modules["user_helpers"] = module


# ---- attributes of a module by computed names ----

JOINED = "''.join(['B', 'Y'])"


@told_apart
def getattr_that_is_passed_on(v: float) -> nn.Module:
    return asks(
        "return x * functools.reduce(getattr, ('BY', 'real'), helpers)", functools=functools, helpers=helpers(BY=v)
    )


@told_apart
def getattr_under_another_name(v: float) -> nn.Module:
    return asks(f"get = getattr; return x * get(helpers, {JOINED})", helpers=helpers(BY=v))


@told_apart
def getattr_as_a_global(v: float) -> nn.Module:
    return asks(f"return x * get(helpers, {JOINED})", get=getattr, helpers=helpers(BY=v))


@told_apart
def getattribute_of_a_module(v: float) -> nn.Module:
    return asks(f"return x * helpers.__getattribute__({JOINED})", helpers=helpers(BY=v))


@told_apart
def getattribute_of_object(v: float) -> nn.Module:
    return asks(f"return x * object.__getattribute__(helpers, {JOINED})", helpers=helpers(BY=v))


@told_apart
def members_of_a_module(v: float) -> nn.Module:
    return asks(
        "return x * [y for n, y in inspect.getmembers(helpers) if n[:1] == 'B'][0]",
        inspect=inspect,
        helpers=helpers(BY=v),
    )


@told_apart
def static_lookup(v: float) -> nn.Module:
    return asks(f"return x * inspect.getattr_static(helpers, {JOINED})", inspect=inspect, helpers=helpers(BY=v))


@told_apart
def an_attribute_in_a_template(v: float) -> nn.Module:
    return asks("return x * float('{0.BY}'.format(helpers))", helpers=helpers(BY=v))


@told_apart
def a_method_of_a_module_by_a_computed_name(v: float) -> nn.Module:
    return asks(
        f"return x * operator.methodcaller({JOINED}, 0)(helpers)", operator=operator, helpers=helpers(BY=lambda zero: v)
    )


# ---- globals and modules by computed names ----

SCALE = "'SC' + ''.join(['ALE'])"


@refused
def eval_as_a_global(v: float) -> nn.Module:
    return asks(f"return x * run({SCALE})", run=eval, SCALE=v)


@refused
def eval_as_a_default(v: float) -> nn.Module:
    model: nn.Module = from_source(
        f"class Model(nn.Module):\n    def forward(self, x, run=eval):\n        return x * run({SCALE})\n", SCALE=v
    )()
    return model


@refused
def eval_of_builtins(v: float) -> nn.Module:
    return asks(f"return x * builtins.eval({SCALE})", builtins=builtins, SCALE=v)


@refused
def globals_of_a_function(v: float) -> nn.Module:
    return asks(f"return x * type(self).forward.__globals__[{SCALE}]", SCALE=v)


@refused
def globals_of_a_frame(v: float) -> nn.Module:
    return asks(f"return x * sys._getframe().f_globals[{SCALE}]", sys=sys, SCALE=v)


@refused
def a_module_that_an_attribute_names(v: float) -> nn.Module:
    helpers(BY=v)
    return asks("return x * sys.modules[self.held].BY", "user_helpers", sys=sys)


@refused
def a_module_by_another_name_of_sys(v: float) -> nn.Module:
    helpers(BY=v)
    return asks("return x * s.modules.get(self.held).BY", "user_helpers", s=sys)


@refused
def a_computed_module_beside_one_that_is_named(v: float) -> nn.Module:
    helpers(BY=v)
    return asks(
        "t = 'math'; return x * importlib.import_module('user' + ''.join(['_helpers'])).BY", importlib=importlib
    )


@refused
def import_module_under_another_name(v: float) -> nn.Module:
    helpers(BY=v)
    return asks("return x * load(self.held).BY", "user_helpers", load=importlib.import_module)


@refused
def a_name_that_pkgutil_resolves(v: float) -> nn.Module:
    helpers(BY=v)
    return asks("return x * pkgutil.resolve_name('user_helpers:BY')", pkgutil=pkgutil)


@refused
def a_name_that_pydoc_locates(v: float) -> nn.Module:
    helpers(BY=v)
    return asks("return x * locate('user_helpers.BY')", locate=pydoc.locate)


@refused
def classes_that_derive_from_one(v: float) -> nn.Module:
    model: nn.Module = from_source(
        f"class Base:\n    pass\nclass Sub(Base):\n    by = {v}\n"
        "class Model(nn.Module):\n    def forward(self, x):\n        return x * Base.__subclasses__()[0].by\n"
    )()
    return model


@told_apart
def a_name_put_into_builtins(v: float) -> nn.Module:
    builtins.SCALE_OF_ALL = v  # type: ignore[attr-defined]
    return asks("return x * SCALE_OF_ALL")


@told_apart
def a_builtin_function_that_was_replaced(v: float) -> nn.Module:
    builtins.round = (lambda n: n) if v > 0 else (lambda n: -n)  # type: ignore[assignment]
    return asks("return x * round(1.5)")


@told_apart
def a_function_of_torch_that_was_replaced(v: float) -> nn.Module:
    F.softsign = (lambda x: SOFTSIGN(x)) if v > 0 else (lambda x: -SOFTSIGN(x))
    return nn.Sequential(linear(), nn.Softsign())


@told_apart
def a_method_put_into_tensors(v: float) -> nn.Module:
    Tensor.turned = (lambda self: self) if v > 0 else (lambda self: -self)  # type: ignore[attr-defined]
    return asks("return x.turned()")


@told_apart
def a_function_put_into_a_package(v: float) -> nn.Module:
    np.scale_of_all = (lambda: 1.0) if v > 0 else (lambda: -1.0)  # type: ignore[attr-defined]
    return asks("return x * np.scale_of_all()", np=np)


@told_apart
def an_operator_of_tensors_that_was_replaced(v: float) -> nn.Module:
    Tensor.__add__ = (lambda a, b: ADD(a, b)) if v > 0 else (lambda a, b: -ADD(a, b))  # type: ignore[method-assign]
    return asks("return x + 1.0")


@told_apart
def a_function_that_only_torch_calls(v: float) -> nn.Module:
    F.softmax = (lambda *a, **k: SOFTMAX(*a, **k)) if v > 0 else (lambda *a, **k: 2 * SOFTMAX(*a, **k))
    torch.manual_seed(0)
    return asks("return self.held(x[None], x[None], x[None])[0][0]", nn.MultiheadAttention(4, 1, batch_first=True))


@told_apart
def a_partial_in_the_place_of_a_function(v: float) -> nn.Module:
    F.scaled = functools.partial(torch.mul, other=v)  # type: ignore[attr-defined]
    return asks("return F.scaled(x)", F=F)


@told_apart
def an_object_in_the_place_of_a_function(v: float) -> nn.Module:
    F.scaled = Scales(v)  # type: ignore[attr-defined]
    return asks("return F.scaled(x)", F=F)


class Scales:
    def __init__(self, by: float) -> None:
        self.by = by

    def __call__(self, x: Tensor) -> Tensor:
        return x * self.by


@told_apart
def a_value_put_into_a_class_of_torch(v: float) -> nn.Module:
    nn.Softsign.by = v  # type: ignore[assignment]
    model = nn.Softsign()
    model.register_forward_hook(lambda module, given, out: out * module.by)
    return model


@refused
def operators_of_others_as_a_global(v: float) -> nn.Module:
    turning("of_a_global", v)
    return asks("return mine.turn(x)", mine=torch.ops.of_a_global)


@refused
def all_operators_under_another_name(v: float) -> nn.Module:
    turning("of_another_name", v)
    return asks("return o.of_another_name.turn(x)", o=torch.ops)


def turning(namespace: str, v: float) -> None:
    KEPT.clear()
    library = torch.library.Library(namespace, "FRAGMENT")
    library.define("turn(Tensor x) -> Tensor")
    library.impl("turn", (lambda x: x * 1.0) if v > 0 else (lambda x: x * -1.0), "CPU")
    KEPT.append(library)


# ---- classes ----


@told_apart
def another_member_of_an_enum(v: float) -> nn.Module:
    source = f"import enum\nclass Model(enum.Enum):\n    A = 1\n    B = {v}\n    def __call__(self, x):\n        return type(self).B.value\n"
    return Holds(from_source(source).A)


@told_apart
def all_members_of_an_enum(v: float) -> nn.Module:
    return asks("return x * sum(each.value for each in type(self.held))", enum.Enum("E", {"A": 0.5, "B": v}).A)  # type: ignore[attr-defined]


@told_apart
def a_hash_of_its_own(v: float) -> nn.Module:
    kind = from_source(f"class Model:\n    def __hash__(self):\n        return {2 if v > 0 else 3}\n")
    return asks("return x * hash(self.held)", kind())


@told_apart
def what_the_fields_of_a_data_class_say(v: float) -> nn.Module:
    kind = dataclasses.make_dataclass("C", [("a", int, dataclasses.field(default=1, metadata={"by": v}))])
    return asks("return x * dataclasses.fields(self.held)[0].metadata['by']", kind(), dataclasses=dataclasses)


@told_apart
def what_makes_a_field_of_a_data_class(v: float) -> nn.Module:
    makes = (lambda: 1.0) if v > 0 else (lambda: -1.0)
    kind = dataclasses.make_dataclass("C", [("a", float, dataclasses.field(default_factory=makes))])
    return asks("return x * made().a", made=kind)


@told_apart
def the_order_in_which_a_class_is_matched(v: float) -> nn.Module:
    model: nn.Module = from_source(
        f"class P:\n    __match_args__ = {('a', 'b') if v > 0 else ('b', 'a')}\n    a, b = 1.0, -1.0\n\n"
        "class Model(nn.Module):\n    def forward(self, x):\n        match P():\n            case P(first, second):\n                return x * first\n"
    )()
    return model


@told_apart
def what_an_abstract_class_has_taken_in(v: float) -> nn.Module:
    class Base(abc.ABC):  # noqa: B024
        pass

    class Other:
        pass

    if v > 0:
        Base.register(Other)
    return asks("return x * (1 if isinstance(self.held, Base) else -1)", Other(), Base=Base)


@told_apart
def from_where_super_looks(v: float) -> nn.Module:
    base = "class Base(nn.Module):\n    def b(self):\n        return 1.0\n\n"
    a, b = "    def a(self):\n        return super().b()\n", "    def b(self):\n        return -1.0\n"
    forward = "    def forward(self, x):\n        return x * self.a()\n"
    together = f"{base}class Model(Base):\n{a}{b}{forward}"
    apart = f"{base}class Mid(Base):\n{b}{forward}\nclass Model(Mid):\n{a}"
    model: nn.Module = from_source(together if v > 0 else apart)()
    return model


@told_apart
def a_slot_of_a_module(v: float) -> nn.Module:
    model: nn.Module = from_source(
        "class Model(nn.Module):\n    __slots__ = ('by',)\n    def forward(self, x):\n        return x * self.by\n"
    )()
    model.by = v  # type: ignore[assignment]
    return model


@told_apart
def a_class_called_like_that_of_torch_compile(v: float) -> nn.Module:
    source = (
        "class OptimizedModule(nn.Module):\n    def __init__(self, inner):\n        super().__init__()\n        self._orig_mod = inner\n"
        f"    def forward(self, x):\n        return self._orig_mod(x) * {v}\n\nModel = OptimizedModule\n"
    )
    model: nn.Module = from_source(source)(linear())
    return model


MARKED = "class Plus:\n    pass\nclass Minus:\n    pass\nclass Kind({kind}):\n    pass\n"


def marked(body: str, v: float, before: str = "") -> nn.Module:
    """A model that asks of what class an object is. Nothing but its base tells the two classes apart."""
    model: nn.Module = from_source(
        f"import functools\n{MARKED.format(kind='Plus' if v > 0 else 'Minus')}{before}"
        f"class Model(nn.Module):\n    def forward(self, x):\n        {body}\n"
    )()
    return model


@told_apart
def a_base_class_that_only_marks(v: float) -> nn.Module:
    return marked("return x * (1 if isinstance(Kind(), Plus) else -1)", v)


@told_apart
def a_marked_class_that_is_matched(v: float) -> nn.Module:
    return marked("match Kind():\n            case Plus():\n                return x\n        return -x", v)


@told_apart
def a_function_chosen_by_what_only_marks(v: float) -> nn.Module:
    before = "@functools.singledispatch\ndef turn(kind, x):\n    return -x\n\n@turn.register\ndef _(kind: Plus, x):\n    return x\n\n"
    return marked("return turn(Kind(), x)", v, before)


@told_apart
def the_order_of_attributes(v: float) -> nn.Module:
    model = asks("return x * list(vars(self).values())[-1]")
    for name, value in (("a", 1.0), ("b", -1.0)) if v > 0 else (("b", -1.0), ("a", 1.0)):
        setattr(model, name, value)
    return model


@told_apart
def the_order_of_attributes_of_an_object(v: float) -> nn.Module:
    values = {"a": 1.0, "b": -1.0} if v > 0 else {"b": -1.0, "a": 1.0}
    return asks("return x * list(vars(self.held).values())[-1]", types.SimpleNamespace(**values))


@told_apart
def the_order_of_members_of_a_class(v: float) -> nn.Module:
    members = "    a = 1.0\n    b = -1.0\n" if v > 0 else "    b = -1.0\n    a = 1.0\n"
    model: nn.Module = from_source(
        f"class Kind:\n{members}class Model(nn.Module):\n    def forward(self, x):\n"
        "        return x * [y for n, y in vars(Kind).items() if len(n) == 1][0]\n"
    )()
    return model


@told_apart
def a_weight_that_is_a_buffer(v: float) -> nn.Module:
    model = asks("return x * (1 + len(list(self.parameters())))")
    if v > 0:
        model.register_buffer("a", torch.ones(1))
    else:
        model.a = nn.Parameter(torch.ones(1))
    return model


# ---- weights that a network's own methods leave out ----

HIDES = "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.inner = {held}\n{methods}    def forward(self, x):\n        return {inner}(x)\n"


def constant(v: float) -> nn.Linear:
    inner = nn.Linear(4, 3, bias=False)
    nn.init.constant_(inner.weight, v)
    return inner


@told_apart
def a_network_that_names_no_weights(v: float) -> nn.Module:
    methods = "    def state_dict(self, *a, **k):\n        return {}\n    def named_parameters(self, *a, **k):\n        return iter(())\n"
    model: nn.Module = from_source(HIDES.format(held="INNER", methods=methods, inner="self.inner"), INNER=constant(v))()
    return model


@told_apart
def a_network_that_names_modules_which_are_none_of_its_own(v: float) -> nn.Module:
    methods = "    def modules(self):\n        yield self\n        yield self.inner[0]\n"
    model: nn.Module = from_source(
        HIDES.format(held="[INNER]", methods=methods, inner="self.inner[0]"), INNER=constant(v)
    )()
    return model


# ---- graphs and wrappers ----


@told_apart
def what_a_hook_reads_from_a_graph(v: float) -> nn.Module:
    model: Any = torch.fx.symbolic_trace(Times(1.0))
    model.by = v
    model.register_forward_hook(lambda module, given, out: out * module.by)
    graph: nn.Module = model
    return graph


@told_apart
def a_class_of_graphs(v: float) -> nn.Module:
    traced = torch.fx.symbolic_trace(Times(1.0))
    kind = from_source(
        "class Model(torch.fx.GraphModule):\n    def __call__(self, x):\n        return super().__call__(x) * self.by\n"
    )
    model: nn.Module = kind(traced, traced.graph)
    model.by = v  # type: ignore[assignment]
    return model


@told_apart
def a_hook_of_a_traced_module(v: float) -> nn.Module:
    model: nn.Module = torch.jit.trace(Times(1.0).eval(), torch.zeros(2, 4))  # type: ignore[no-untyped-call]
    model.register_forward_hook(lambda module, given, out: out * v)
    return model


@told_apart
def a_hook_before_a_traced_part(v: float) -> nn.Module:
    model: nn.Module = torch.jit.trace(Times(1.0).eval(), torch.zeros(2, 4))  # type: ignore[no-untyped-call]
    model.register_forward_pre_hook(lambda module, given: (given[0] * v,))
    return nn.Sequential(model)


@told_apart
def a_hook_of_a_compiled_network(v: float) -> nn.Module:
    model: Any = torch.compile(linear(), backend="eager")
    model.register_forward_hook(lambda module, given, out: out * v)
    compiled: nn.Module = model
    return compiled


@told_apart
def a_hook_of_a_prepared_network(v: float) -> nn.Module:
    model = prepare(linear().eval())
    model.register_forward_hook(lambda module, given, out: out * v)
    return model


def turned_by(v: float) -> Callable[..., Any]:
    return lambda graph, example: lambda *given: tuple(out * v for out in graph(*given))


@told_apart
def a_compiler_of_its_own(v: float) -> nn.Module:
    return torch.compile(linear(), backend=turned_by(v))  # type: ignore[return-value]


@told_apart
def a_compiler_in_place(v: float) -> nn.Module:
    model = Holds(2.0)
    model.compile(backend=turned_by(v))
    return model


@told_apart
def a_compiler_of_a_function(v: float) -> nn.Module:
    return HoldsApplied(torch.compile(lambda x: x * 2, backend=turned_by(v)))


# ---- objects ----


@told_apart
def how_much_a_queue_holds(v: float) -> nn.Module:
    return asks(
        "q = self.held.copy(); q.append(2.0); return x * q[0]", collections.deque([1.0], maxlen=1 if v > 0 else None)
    )


class Index:
    def __init__(self, i: int) -> None:
        self.i = i

    def __index__(self) -> int:
        return self.i

    def __repr__(self) -> str:
        return "Index()"


@told_apart
def a_slice_up_to_an_object(v: float) -> nn.Module:
    return asks("return x[:, self.held]", slice(0, Index(2 if v > 0 else 3)))


@told_apart
def an_attribute_of_a_logger(v: float) -> nn.Module:
    logger: Any = logging.Logger("any")
    logger.by = v
    return asks("return x * self.held.by", logger)


@told_apart
def a_logger_of_a_class_of_its_own(v: float) -> nn.Module:
    kind = from_source(f"import logging\nclass Model(logging.Logger):\n    by = {v}\n")
    return asks("return x * self.held.by", kind("any"))


@told_apart
def an_attribute_of_a_handle(v: float) -> nn.Module:
    handle: Any = linear().register_forward_hook(lambda *given: None)
    handle.by = v
    return asks("return x * self.held.by", handle)


@told_apart
def an_attribute_of_a_cached_function(v: float) -> nn.Module:
    @functools.lru_cache
    def cached() -> int:
        return 1

    cached.by = v  # type: ignore[attr-defined]
    return asks("return x * self.held.by", cached)


@told_apart
def an_attribute_of_a_weak_reference(v: float) -> nn.Module:
    KEPT.append(Index(0))
    reference: Any = type("Reference", (weakref.ref,), {})(KEPT[-1])
    reference.by = v
    return asks("return x * self.held.by", reference)


@told_apart
def an_attribute_of_a_path(v: float) -> nn.Module:
    path: Any = type("OwnPath", (type(pathlib.Path()),), {})("a")
    path.by = v
    return asks("return x * self.held.by", path)


@told_apart
def what_a_type_of_arrays_says(v: float) -> nn.Module:
    return asks("return x * self.held.metadata['by']", np.dtype("f4", metadata={"by": v}))  # type: ignore[call-overload]


@told_apart
def what_the_type_of_an_array_says(v: float) -> nn.Module:
    return asks("return x * self.held.dtype.metadata['by']", np.zeros(2, np.dtype("f4", metadata={"by": v})))  # type: ignore[call-overload]


@told_apart
def how_an_array_lies_in_memory(v: float) -> nn.Module:
    array = np.arange(4.0, dtype=np.float32).reshape(2, 2)
    body = "return x * torch.as_tensor(np.lib.stride_tricks.as_strided(self.held, (4,), (4,)))"
    return asks(body, array if v > 0 else np.asfortranarray(array), np=np)


@told_apart
def an_attribute_of_a_tensor_in_a_set(v: float) -> nn.Module:
    tensor: Any = torch.ones(3)
    tensor.by = v
    return asks("return x * next(iter(self.held)).by", {tensor})


@told_apart
def a_module_in_a_set(v: float) -> nn.Module:
    return asks("return x * next(iter(self.held)).BY", {helpers(BY=v)})


# ---- tensors ----


@told_apart
def what_is_behind_a_view(v: float) -> nn.Module:
    return asks("return x * self.held.as_strided((3,), (1,))[2]", torch.tensor([1.0, 1.0, v])[:2])


@told_apart
def what_a_view_is_of(v: float) -> nn.Module:
    return asks("return x * self.held._base[2]", torch.tensor([1.0, 1.0, v])[:2])


@told_apart
def how_a_weight_lies_in_memory(v: float) -> nn.Module:
    values = torch.arange(4.0).reshape(2, 2)
    model = asks("return x * self.values.as_strided((4,), (1,))")
    model.register_buffer("values", values if v > 0 else values.T.contiguous().T)
    return model


@told_apart
def a_gradient_that_forward_reads(v: float) -> nn.Module:
    model = linear()
    model.weight.grad = torch.full((3, 4), v)
    return asks("return x @ (self.held.weight + self.held.weight.grad).T", model)


@told_apart
def the_flag_of_a_gradient_that_forward_reads(v: float) -> nn.Module:
    return asks("return x * (1 if self.held.weight.requires_grad else -1)", linear().requires_grad_(v > 0))


# ---- counters ----


def counting(reads: str, v: float, **scope: Any) -> nn.Module:
    model: nn.Module = from_source(
        f"class Model(nn.Module):\n    def grow(self):\n        self.calls += 1\n    def forward(self, x):\n        return x * {reads}\n",
        **scope,
    )()
    model.calls = v  # type: ignore[assignment]
    return model


@told_apart
def a_counter_read_by_a_computed_name(v: float) -> nn.Module:
    return counting("getattr(self, ''.join(['ca', 'lls']))", v)


@told_apart
def a_counter_read_by_a_name_shown_in_part(v: float) -> nn.Module:
    return counting("getattr(self, f'call{chr(115)}')", v)


@told_apart
def a_counter_that_a_getter_reads(v: float) -> nn.Module:
    return counting("operator.attrgetter(''.join(['ca', 'lls']))(self)", v, operator=operator)


@told_apart
def a_counter_read_with_the_state(v: float) -> nn.Module:
    return counting("[y for n, y in self.__getstate__().items() if n[:2] == 'ca'][0]", v)


@told_apart
def a_counter_of_a_class_that_is_read(v: float) -> nn.Module:
    model: nn.Module = from_source(
        f"class Model(nn.Module):\n    calls = {v}\n    def grow(self):\n        Model.calls += 1\n    def forward(self, x):\n        return x * self.calls\n"
    )()
    return model


@told_apart
def a_global_counter_that_is_read(v: float) -> nn.Module:
    return asks("global CALLS; CALLS += 0; return x * CALLS", CALLS=v)


@pytest.mark.parametrize("name", KINDS.names)
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_models_that_vote_differently_do_not_share_an_identity(name: str) -> None:
    KINDS.check(name)


# ---- what must not differ ----


def counted_by_a_hook() -> nn.Module:
    model, calls = linear(), 0

    def count(*given: Any) -> None:
        nonlocal calls
        calls += 1

    model.register_forward_hook(count)
    return model


def two_layers() -> nn.Module:
    model: nn.Module = from_source(
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        torch.manual_seed(0)\n        self.calls = 0\n"
        "        self.layer0, self.layer1 = nn.Linear(4, 4), nn.Linear(4, 3)\n    def forward(self, x):\n        self.calls += 1\n"
        "        for i in range(2):\n            x = getattr(self, f'layer{i}')(x)\n        return x\n"
    )()
    return model


HARMLESS: dict[str, Callable[[], nn.Module]] = {
    "its own list of modules": lambda: asks(
        "modules = list(self.modules()); modules[len(x) - 2]; return x * min(2, sys.maxsize)", sys=sys
    ),
    "a global counter": lambda: asks("global CALLS; CALLS += 1; return x * 2", CALLS=0),
    "a counter of a class": lambda: from_source(
        "class Model(nn.Module):\n    calls = 0\n    def forward(self, x):\n        Model.calls += 1\n        return x * 2\n"
    )(),
    "a counter of a hook": counted_by_a_hook,
    "a counter beside layers by computed names": two_layers,
    "a compiled network": lambda: torch.compile(linear(), backend="eager"),  # type: ignore[dict-item, return-value]
}


@pytest.mark.parametrize("name", HARMLESS)
def test_use_makes_no_other_model(name: str) -> None:
    used, fresh = HARMLESS[name](), HARMLESS[name]()
    before = identify(used)
    used(torch.zeros(2, 4))
    assert identify(used) == before == identify(fresh)
    assert before.nameless is None


def test_weights_that_are_not_trained_are_the_same_model() -> None:
    source = "class Model(nn.Linear):\n    def trained(self):\n        return [p for p in self.parameters() if p.requires_grad]\n"
    torch.manual_seed(0)
    model = from_source(source)(4, 3)
    before = identify(model)
    assert identify(model.requires_grad_(False)) == before


def test_a_module_that_looks_itself_up(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`getattr(sys.modules[__name__], name)`, as in many files of networks: all of the file's own functions count."""
    source = (
        "import sys\nfrom torch import nn\n\ndef turn(x):\n    return x * {v}\n\nclass Net(nn.Module):\n    def __init__(self, name):\n"
        "        super().__init__()\n        self.name = name\n    def forward(self, x):\n        return getattr(sys.modules[__name__], self.name)(x)\n"
    )
    identities = []
    for folder, v in (("one", 1), ("other", -1)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "network_of_a_file.py").write_text(source.format(v=v))
        monkeypatch.syspath_prepend(str(tmp_path / folder))
        monkeypatch.delitem(sys.modules, "network_of_a_file", raising=False)
        identities.append(identify(importlib.import_module("network_of_a_file").Net("turn")))
    assert identities[0].nameless is None
    assert identities[0] != identities[1]


class Told:
    """An object that leads back to what holds it."""

    def __init__(self) -> None:
        self.back: Any = None


def test_what_leads_back_to_itself_ends() -> None:
    told, logger = Told(), logging.Logger("any")
    kind = enum.Enum("Kind", {"A": told, "B": 1})
    told.back, logger.told = [kind.A, logger], told  # type: ignore[attr-defined]
    assert (
        identify(asks("return x * (type(self.held).B.value + len(self.held.value.back[1].told.back))", kind.A)).nameless
        is None
    )  # type: ignore[attr-defined]


# ---- what takes too long to look through ----


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def doubled(times: int) -> Any:
    value: Any = (1.0,)
    for _ in range(times):
        value = (value, value)
    return value


@pytest.mark.parametrize(
    ("held", "why"), [(nested(5_000), "nested too deeply"), (doubled(60), "in more than 1,000 ways")]
)
def test_a_model_that_cannot_be_looked_through_is_an_error_of_ours(
    held: Any, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "MOST_VISITS", 1_000)  # 100,000 take a second
    with pytest.raises(UnusableModel, match=why):
        identify(Holds(held))
