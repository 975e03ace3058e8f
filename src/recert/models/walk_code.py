"""Of the walk through a model: its code, which is classes, functions, what these mention, and operators."""

import types
from typing import TYPE_CHECKING, Any

import torch

from recert.models.classes import beside_members, calls_past_itself, counters, functions_of, members, names_in_class
from recert.models.lookups import (
    NAMED_AT_RUN_TIME,
    REACHES,
    READS_ATTRIBUTES,
    beginnings_read,
    by_computed_names,
    imported_by_name,
    in_templates,
    names_at_run_time,
    put_into_builtins,
    reads_all_attributes,
)
from recert.models.source import code_text, imported_inside, mentioned, of_matches, only_counted, read
from recert.models.trusted import is_found_by_name, is_installed, is_installed_code, is_torchs, is_torchs_code

if TYPE_CHECKING:
    from recert.models.walk import Walk

CALLED_TO_VOTE = ("forward", "__call__", "<lambda>")
"""Functions in which a look at a weight's gradient decides votes; elsewhere it is training's."""
MADE_BY_PYTHON = {
    "__name__", "__file__", "__doc__", "__spec__", "__loader__", "__path__", "__package__", "__cached__", "__builtins__", "__annotations__",
    "__dict__", "__class__", "__warningregistry__",
}  # fmt: skip
"""Globals that every module has."""
OPERATORS = {
    "aten", "prims", "prim", "higher_order", "quantized", "quantized_decomposed", "torchvision", "torchao", "onednn", "mkldnn",
}  # fmt: skip
"""Namespaces of operators that come with torch and its own packages."""
NOT_OF_OTHERS = OPERATORS | {
    "_c10d_functional", "_c10d_functional_autograd", "_dtensor", "_native", "_quantized", "_test", "c10d", "debug_mode_ops", "debugprims", "export",
    "fsdp", "inductor", "inductor_prims", "mkl", "mkldnn_prepacked", "profiler", "quantization", "rngprims", "sparse", "static_runtime", "symm_mem",
}  # fmt: skip
"""The same and those that no graph of an inference has."""


def put_class(walk: "Walk", kind: type, path: str) -> None:
    """A class by its code and attributes; of torch and other installed packages by its name as well."""
    name = f"{kind.__module__}.{kind.__qualname__}" if is_torchs(kind) else kind.__qualname__.rpartition(".")[2]
    walk.text(f"class {name}")
    if type(kind) is not type:
        walk.value(type(kind), path)
    if is_installed(kind) and not is_torchs(kind):
        walk.text(kind.__module__)
    # Also of a class of torch: parametrisations make one from the user's, and a method of torch's may have been replaced.
    for ancestor in kind.__mro__:
        if is_torchs(ancestor):
            walk.text(f"base {ancestor.__module__}.{ancestor.__qualname__}")
            walk.read |= names_in_class(ancestor)
        elif not is_installed(ancestor):
            for past in calls_past_itself(ancestor):
                walk.text(f"past itself {past}")
        walk.asides += [(name, value, f"{path}.{name}") for name, value in beside_members(ancestor)]
        if not is_installed(ancestor):
            walk.order_of(name for name in vars(ancestor) if not name.startswith("__"))
        counted = set() if is_torchs(ancestor) else counters(ancestor)
        for member, value in members(ancestor):
            for each in functions_of(value):
                walk.text(f"member {member}")
                if member in counted and (at_first := _at_first(each)) is not each:  # it counts if something reads it
                    walk.class_counters.append((member, each))
                    each = at_first
                walk.value(each, f"{path} ({ancestor.__qualname__}.{member})")


def put_function(walk: "Walk", function: types.FunctionType, path: str) -> None:
    if is_torchs_code(function):
        if function.__globals__["__name__"] == "functools" and hasattr(function, "registry"):
            walk.text("chosen by type")  # it also has a cache, which grows with calls
            walk.mentioned.add("singledispatch")
            walk.value(function.registry, path)
            return
        if hasattr(function, "_torchdynamo_orig_callable"):  # torch.compile's wrapper computes the same
            put_backend(walk, function, path)
            walk.value(function._torchdynamo_orig_callable, path)
            return
        walk.text(f"function {function.__globals__['__name__']}.{function.__code__.co_qualname}")
        _reaches_others(walk, function, path)
    else:
        walk.text(f"function {code_text(function)}")
    walk.items((function.__defaults__, function.__kwdefaults__, vars(function)), path)
    of_users = bool(function.__closure__) and not is_installed_code(function)
    unread = only_counted(function) if of_users else frozenset()
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            held = _at_first(cell.cell_contents) if name in unread else cell.cell_contents
            walk.value(held, f"{path}, a variable of {function.__qualname__}")
        except ValueError:  # not assigned yet
            walk.text("empty")
    if not is_torchs_code(function):
        walk.mentioned |= mentioned(function.__code__) | in_templates(function.__code__) | of_matches(function.__code__)
        walk.read |= (names := read(function))
        if function.__name__ in CALLED_TO_VOTE:
            walk.read_to_vote |= names
        walk.reads_all |= reads_all_attributes(function)
        walk.beginnings |= beginnings_read(function)
    # What installed packages refer to stands for itself: their versions do not change while a cache is made.
    if not is_installed_code(function):
        _globals(walk, function, path)


def _at_first(counter: Any) -> Any:
    """Where a counter begins that nothing reads: how often a model was called decides no vote."""
    return type(counter)(0) if type(counter) in (int, float) else counter


def _globals(walk: "Walk", function: types.FunctionType, path: str) -> None:
    unread = only_counted(function)
    for name in sorted(mentioned(function.__code__) & function.__globals__.keys()):
        if name not in MADE_BY_PYTHON:
            walk.text(f"global {name}")
            value = function.__globals__[name]
            walk.value(_at_first(value) if name in unread else value, f"{path}, global {name}".lstrip(", "))
    for name, value in put_into_builtins(function).items():
        walk.text(f"built in {name}")
        walk.value(value, f"{path}, built-in {name}".lstrip(", "))
    for module in imported_inside(function):
        walk.text("import")
        put_user_module(walk, module, path)
    walk.by_computed_names |= by_computed_names(function)
    modules, nowhere = imported_by_name(function)
    for module in modules:
        walk.text("looked up")
        put_user_module(walk, module, path)
    if nowhere:
        looks = "import_module()" if "import_module" in mentioned(function.__code__) else "sys.modules"
        walk.unknown.append(f"{path} ({looks} in {function.__qualname__})".lstrip())
    names = mentioned(function.__code__)
    if any(function.__globals__.get(name) is torch.ops for name in names):
        names.add("ops")
    for name in operators_of_others(names):
        walk.unknown.append(f"{path} (torch.ops.{name} in {function.__qualname__})".lstrip())
    for name in sorted(names_at_run_time(function)):
        called = "" if name.startswith(("_", "f_")) else "()"
        walk.unknown.append(f"{path} ({name}{called} in {function.__qualname__})".lstrip())


def _reaches_others(walk: "Walk", function: types.FunctionType, path: str) -> None:
    """A function of Python's that is held under any name, and finds modules or globals by texts."""
    module, name = str(function.__globals__["__name__"]), function.__name__
    renamed = module == "importlib" and name == "import_module" and not path.endswith("global import_module")
    if renamed or name in REACHES.get(module, ()):
        walk.unknown.append(f"{path} ({module}.{name})".lstrip())


def put_user_module(walk: "Walk", module: types.ModuleType, path: str = "") -> None:
    """A package by its name; of a module of the user's own, what the code mentions, at the end."""
    if isinstance(module, torch._ops._OpNamespace) and module.name not in NOT_OF_OTHERS:
        walk.unknown.append(f"{path} (torch.ops.{module.name})".lstrip())
    if is_installed(module):
        walk.text(f"module {module.__name__}")
        if not any(module is each for each in walk.packages_met):
            walk.packages_met.append(module)
        return
    if not any(module is each for each in walk.modules_met):
        walk.modules_met.append(module)
    walk.text(f"module {next(i for i, each in enumerate(walk.modules_met) if each is module)}")


def put_compiled(walk: "Walk", value: Any, path: str) -> None:
    """A function in C: known by its name if it is torch's, Python's or of an installed package."""
    owner = getattr(value, "__module__", None) or getattr(getattr(value, "__objclass__", None), "__module__", None)
    walk.text(f"compiled {owner}.{getattr(value, '__qualname__', '')}")
    if owner == "builtins" and getattr(value, "__name__", "") in NAMED_AT_RUN_TIME:
        walk.unknown.append(f"{path} ({value.__name__})".lstrip())
    if any(value is each for each in READS_ATTRIBUTES):  # under another name, or passed on
        walk.by_computed_names = walk.reads_all = True
    receiver = getattr(value, "__self__", None)
    if receiver is not None and not isinstance(receiver, types.ModuleType):
        walk.value(receiver, path)
    elif not (is_installed(value) and (is_torchs(type(value)) or is_found_by_name(value))):
        walk.unknown.append(f"{path} ({type(value).__name__} {getattr(value, '__qualname__', '')})")


def put_backend(walk: "Walk", compiled: Any, path: str) -> None:
    """What torch.compile compiles with, if that is not torch's: it may make anything of a graph."""
    if isinstance(compiled, types.FunctionType):
        cells = dict(zip(compiled.__code__.co_freevars, compiled.__closure__ or (), strict=True))
        context = cells["self"].cell_contents if "self" in cells else None
    else:
        context = vars(compiled).get("dynamo_ctx")
    callback: Any = getattr(context, "callback", None)
    while hasattr(callback, "_torchdynamo_orig_backend"):
        callback = callback._torchdynamo_orig_backend
    backend = getattr(callback, "compiler_fn", callback)
    known = is_torchs_code(backend) if isinstance(backend, types.FunctionType) else is_torchs(type(backend))
    if not known:
        walk.text("compiled by")
        walk.value(backend, f"{path}'s compiler".lstrip("."))


def put_operator(walk: "Walk", value: Any, path: str) -> None:
    """An operator in a graph: torch's own is known by its name, what others have registered is not."""
    walk.text(f"operator {value}")
    namespace = str(value).partition(".")[0]
    if namespace not in OPERATORS and not isinstance(value, torch._ops.HigherOrderOperator):
        walk.unknown.append(f"{path} (the operator {value})")


def operators_of_others(names: set[str]) -> list[str]:
    """Namespaces of operators among the names in a function, of `torch.ops`, that do not come with torch."""
    if "ops" not in names:
        return []
    registered = {name.partition("::")[0] for name in torch._C._dispatch_get_all_op_names()}
    return sorted(names & registered - NOT_OF_OTHERS)
