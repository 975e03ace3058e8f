"""What code looks up by names that reading it does not show: attributes, counters, globals, modules."""

import ast
import builtins
import dis
import functools
import sys
from types import CodeType, FunctionType, ModuleType
from typing import Any

from recert.models.source import COPIES, mentioned, own_node
from recert.models.trusted import is_installed_code, is_installed_name, is_torchs

NAMED_AT_RUN_TIME = {"eval", "exec", "globals", "__import__"}
"""Built-in functions that reach values by names which no reading of the code shows."""
HOLD_GLOBALS = {"__globals__", "f_globals", "f_locals", "f_builtins", "__builtins__", "__subclasses__"}
"""Attributes that lead to all globals of some code, or to classes that nothing else mentions."""
REACHES = {
    "builtins": NAMED_AT_RUN_TIME,
    "pkgutil": {"resolve_name"},
    "pydoc": {"locate", "resolve", "safeimport"},
    "runpy": {"run_module", "run_path"},
    "gc": {"get_objects", "get_referrers", "get_referents"},
}
"""Functions of Python's modules that do the same."""
READS_ATTRIBUTES = {getattr: "getattr", vars: "vars", dir: "dir"}
BY_NAME = {"getattr", "getattr_static", "attrgetter", "methodcaller", "__getattribute__"}
ALL_AT_ONCE = {"getmembers", "__getstate__"}
READS = BY_NAME | ALL_AT_ONCE | {"vars", "__dict__"}
OF_EVERY_MODULE = {"__debug__", "__doc__", "__loader__", "__name__", "__package__", "__spec__", "_"}
CONSTANTS = {"Ellipsis", "False", "None", "NotImplemented", "True"}


def by_computed_names(function: FunctionType) -> bool:
    """Whether it reaches attributes of something, but not of `self`, by names that the code does not show."""
    if not (READS - {"__getstate__"}) & mentioned(function.__code__):
        return False
    node = own_node(function.__code__, function)
    return node is None or _computes_names(node)


@functools.lru_cache(maxsize=4096)
def _computes_names(node: ast.AST) -> bool:
    called = _called(node)
    return any(_computes_a_name(each, called) for each in ast.walk(node))


def _called(node: ast.AST) -> set[int]:
    return {id(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)}


def _computes_a_name(node: ast.AST, called: set[int]) -> bool:
    if isinstance(node, ast.Attribute) and node.attr in ("__dict__", "__getattribute__"):
        return not _is_self(node.value)
    if _name_of(node) in ("attrgetter", "methodcaller", "getattr_static", "getmembers"):
        return True
    if isinstance(node, ast.Name) and node.id == "getattr" and id(node) not in called:  # it is passed on, or renamed
        return True
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "vars")):
        return False
    shown = node.func.id == "getattr" and len(node.args) > 1 and isinstance(node.args[1], ast.Constant)
    return not (shown or (node.args and _is_self(node.args[0])))


def _name_of(node: ast.AST) -> str | None:
    """How a function is called that is reached as a global, or as an attribute of a module."""
    return (
        getattr(node, "id", None) or getattr(node, "attr", None) if isinstance(node, ast.Name | ast.Attribute) else None
    )


def _is_self(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super":
        return True
    return isinstance(node, ast.Name) and node.id == "self"


def in_templates(code: CodeType) -> set[str]:
    """Attributes that a text like "{0.by}" asks for when it is formatted."""
    if not {"format", "format_map"} & mentioned(code):
        return set()
    return {name for text in texts(code) if "{" in text for name in _words(text)}


def _words(text: str) -> set[str]:
    return {
        word
        for word in "".join(c if c.isidentifier() or c.isdigit() else " " for c in text).split()
        if word.isidentifier()
    }


def reads_all_attributes(function: FunctionType) -> bool:
    """Whether it goes through the attributes of an object, as copying and pickling do, which decide no vote."""
    if function.__name__ in COPIES:
        return False
    names = mentioned(function.__code__)
    if {"vars", "__dict__"} & names:
        return True
    # Packages read their own attributes in many ways, and not the counters of the user's.
    if is_installed_code(function) or not READS & names:
        return False
    node = own_node(function.__code__, function)
    return node is None or bool(ALL_AT_ONCE & names) or _hidden(node)[0]


def beginnings_read(function: FunctionType) -> frozenset[str]:
    """How names begin that it puts together to read attributes: "layer" of `getattr(self, f"layer{i}")`."""
    node = own_node(function.__code__, function) if BY_NAME & mentioned(function.__code__) else None
    return frozenset() if node is None else _hidden(node)[1]


@functools.lru_cache(maxsize=4096)
def _hidden(node: ast.AST) -> tuple[bool, frozenset[str]]:
    """Whether attributes are read by names of which nothing is shown, and how those begin that are shown in part."""
    hidden, beginnings, called = False, set(), _called(node)
    for each in ast.walk(node):
        if isinstance(each, ast.Call) and _name_of(each.func) in BY_NAME:
            for argument in _names_given(each):
                # A name in a variable or an attribute is a text that is shown somewhere else.
                if isinstance(argument, ast.Constant | ast.Name | ast.Attribute | ast.Subscript | ast.Starred):
                    continue
                beginning = _beginning(argument)
                beginnings |= {beginning} if beginning else set()
                hidden |= not beginning
        elif _name_of(each) in ("getattr_static", "attrgetter", "methodcaller") or (_name_of(each) == "getattr"):
            hidden |= id(each) not in called  # passed on, or renamed
    return hidden, frozenset(beginnings)


def _names_given(call: ast.Call) -> list[ast.expr]:
    """The arguments that are names of attributes."""
    name = _name_of(call.func)
    if name == "attrgetter":
        return call.args
    if name == "methodcaller":
        return call.args[:1]
    return call.args[-1:] if name == "__getattribute__" else call.args[1:2]


def _beginning(node: ast.AST) -> str:
    """The constant that a text begins with which is put together, as in `f"layer{i}"` and `"layer" + i`."""
    if isinstance(node, ast.JoinedStr) and node.values:
        return _beginning(node.values[0])
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
        return _beginning(node.left).partition("%")[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def names_at_run_time(function: FunctionType) -> set[str]:
    """What it calls or mentions that reaches values by computed names."""
    names, own = mentioned(function.__code__), function.__globals__
    found = (_loaded_globals(function.__code__) & NAMED_AT_RUN_TIME) - own.keys()
    found |= _attributes(function.__code__) & HOLD_GLOBALS
    modules = {each.__name__ for name in names & own.keys() if isinstance(each := own[name], ModuleType)} | names
    for module, reaching in REACHES.items():
        if module in modules:
            found |= names & reaching - own.keys()
    return found


def _loaded_globals(code: CodeType) -> set[str]:
    """Names of globals, and of what is built in, that code reads."""
    found = {each.argval for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return found.union(*(_loaded_globals(each) for each in code.co_consts if isinstance(each, CodeType)))


def _attributes(code: CodeType) -> set[str]:
    found = {*code.co_names, *(each for each in code.co_consts if isinstance(each, str))}
    return found.union(*(_attributes(each) for each in code.co_consts if isinstance(each, CodeType)))


def put_into_builtins(function: FunctionType) -> dict[str, Any]:
    """What it reads that somebody has put among Python's built-in names, or in place of one."""
    shared = vars(builtins)
    names = _loaded_globals(function.__code__) - function.__globals__.keys()
    return {name: shared[name] for name in sorted(names & shared.keys()) if not _is_pythons_own(name, shared[name])}


def _is_pythons_own(name: str, value: Any) -> bool:
    if name in OF_EVERY_MODULE | CONSTANTS:
        return True
    if isinstance(value, FunctionType):
        return is_installed_code(value)
    if isinstance(value, type):
        return is_torchs(value)
    return callable(value) and is_torchs(type(value))


def imported_by_name(function: FunctionType) -> tuple[list[ModuleType], bool]:
    """Modules of the user's own that it looks up by names, and whether it does so by one that the code does not show."""
    names = mentioned(function.__code__)
    as_sys = {"sys", *(name for name in names if function.__globals__.get(name) is sys)}
    if "import_module" not in names and not ("modules" in names and as_sys & names):
        return [], False
    found = {text: sys.modules[text] for text in sorted(texts(function.__code__)) if text in sys.modules}
    node = own_node(function.__code__, function)
    own, hidden = _looked_up(node, frozenset(as_sys)) if node else (False, not found and "import_module" in names)
    itself = str(function.__globals__.get("__name__"))
    if own and getattr(sys.modules.get(itself), "__dict__", None) is function.__globals__:
        found[itself] = sys.modules[itself]
    return [module for name, module in found.items() if not is_installed_name(name)], hidden


@functools.lru_cache(maxsize=4096)
def _looked_up(node: ast.AST, as_sys: frozenset[str]) -> tuple[bool, bool]:
    """Whether a function looks up the module that it is in, and whether any by a name that is not shown."""
    as_sys |= {
        alias.asname for each in ast.walk(node) if isinstance(each, ast.Import) for alias in each.names if alias.name == "sys" and alias.asname
    }  # fmt: skip

    def is_modules(each: ast.AST) -> bool:
        return isinstance(each, ast.Attribute) and each.attr == "modules" and _name_of(each.value) in as_sys

    asked: list[ast.AST] = []
    found = 0
    for each in ast.walk(node):
        found += is_modules(each) or _name_of(each) == "import_module"
        if isinstance(each, ast.Call) and _name_of(each.func) == "import_module":
            asked += each.args[:1]
        elif isinstance(each, ast.Subscript) and is_modules(each.value):
            asked.append(each.slice)
        elif isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and is_modules(each.func.value):
            asked += each.args[:1]
        elif isinstance(each, ast.Compare):
            found -= sum(map(is_modules, each.comparators))  # only whether it is there
    own = [isinstance(each, ast.Name) and each.id == "__name__" for each in asked]
    hidden = [not isinstance(each, ast.Constant) and not itself for each, itself in zip(asked, own, strict=True)]
    return any(own), any(hidden) or found > len(asked)


def texts(code: CodeType) -> set[str]:
    """All strings in a function and in those inside it."""
    found = {each for each in code.co_consts if isinstance(each, str)}
    return found.union(*(texts(each) for each in code.co_consts if isinstance(each, CodeType)))
