"""Of the walk through a model: its code, which is classes, functions, what these mention, and operators."""

import types
from typing import TYPE_CHECKING, Any

import torch

from recert.models.classes import functions_of, members, names_in_class
from recert.models.source import (
    by_computed_names,
    code_text,
    imported_by_name,
    imported_inside,
    mentioned,
    names_at_run_time,
    read,
    reads_all_attributes,
)
from recert.models.trusted import is_found_by_name, is_installed, is_installed_code, is_torchs, is_torchs_code

if TYPE_CHECKING:
    from recert.models.walk import Walk

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
        for member, value in members(ancestor):
            for each in functions_of(value):
                walk.text(f"member {member}")
                walk.value(each, f"{path} ({ancestor.__qualname__}.{member})")


def put_function(walk: "Walk", function: types.FunctionType, path: str) -> None:
    if is_torchs_code(function):
        if function.__globals__["__name__"] == "functools" and hasattr(function, "registry"):
            walk.text("chosen by type")  # it also has a cache, which grows with calls
            walk.value(function.registry, path)
            return
        if hasattr(function, "_torchdynamo_orig_callable"):  # torch.compile's wrapper computes the same
            walk.value(function._torchdynamo_orig_callable, path)
            return
        walk.text(f"function {function.__globals__['__name__']}.{function.__code__.co_qualname}")
    else:
        walk.text(f"function {code_text(function)}")
    walk.items((function.__defaults__, function.__kwdefaults__, vars(function)), path)
    for cell in function.__closure__ or ():
        try:
            walk.value(cell.cell_contents, f"{path}, a variable of {function.__qualname__}")
        except ValueError:  # not assigned yet
            walk.text("empty")
    if not is_torchs_code(function):
        walk.mentioned |= mentioned(function.__code__)
        walk.read |= read(function)
        walk.reads_all |= reads_all_attributes(function)
    # What installed packages refer to stands for itself: their versions do not change while a cache is made.
    if not is_installed_code(function):
        _globals(walk, function, path)


def _globals(walk: "Walk", function: types.FunctionType, path: str) -> None:
    for name in sorted(mentioned(function.__code__) & function.__globals__.keys()):
        if name not in MADE_BY_PYTHON:
            walk.text(f"global {name}")
            walk.value(function.__globals__[name], f"{path}, global {name}".lstrip(", "))
    for module in imported_inside(function):
        walk.text("import")
        put_user_module(walk, module)
    walk.by_computed_names |= by_computed_names(function)
    modules, nowhere = imported_by_name(function.__code__)
    for module in modules:
        walk.text("looked up")
        put_user_module(walk, module)
    if nowhere:
        walk.unknown.append(f"{path} (import_module() in {function.__qualname__})".lstrip())
    for name in operators_of_others(mentioned(function.__code__)):
        walk.unknown.append(f"{path} (torch.ops.{name} in {function.__qualname__})".lstrip())
    for name in sorted(names_at_run_time(function.__code__) - function.__globals__.keys()):
        walk.unknown.append(f"{path} ({name}() in {function.__qualname__})".lstrip())


def put_user_module(walk: "Walk", module: types.ModuleType) -> None:
    """A package by its name; of a module of the user's own, what the code mentions, at the end."""
    if is_installed(module):
        walk.text(f"module {module.__name__}")
        return
    if not any(module is each for each in walk.modules_met):
        walk.modules_met.append(module)
    walk.text(f"module {next(i for i, each in enumerate(walk.modules_met) if each is module)}")


def put_compiled(walk: "Walk", value: Any, path: str) -> None:
    """A function in C: known by its name if it is torch's, Python's or of an installed package."""
    owner = getattr(value, "__module__", None) or getattr(getattr(value, "__objclass__", None), "__module__", None)
    walk.text(f"compiled {owner}.{getattr(value, '__qualname__', '')}")
    receiver = getattr(value, "__self__", None)
    if receiver is not None and not isinstance(receiver, types.ModuleType):
        walk.value(receiver, path)
    elif not (is_installed(value) and (is_torchs(type(value)) or is_found_by_name(value))):
        walk.unknown.append(f"{path} ({type(value).__name__} {getattr(value, '__qualname__', '')})")


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
