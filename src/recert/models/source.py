"""The code of a function as text, without comments, layout and docstrings, and what it mentions."""

import ast
import copy
import dis
import functools
import importlib
import linecache
import sys
from collections.abc import Iterator
from contextlib import suppress
from types import CodeType, FunctionType, ModuleType

from recert.models.trusted import is_installed_name

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Facts = tuple[object, ...]
_NODES_KEPT = 4096
COPIES = {"__getstate__", "__setstate__", "__reduce__", "__reduce_ex__", "__copy__", "__deepcopy__"}


def code_text(function: FunctionType) -> str:
    """What a function does: its source in one form, or, if there is none that is surely its own, its compiled code.

    Compiled code begins with a zero byte. It is another in other versions of Python.
    """
    found = own_node(function.__code__, function)
    return f"\0{_compiled_text(function.__code__)}" if found is None else _plain_text(found)


# A model is looked at before and after its votes: what was found out about a function's source is kept with it.
@functools.lru_cache(maxsize=_NODES_KEPT)
def _plain_text(found: ast.AST) -> str:
    """Source without comments, layout and docstrings."""
    node = copy.deepcopy(found)
    for each in ast.walk(node):
        if (
            isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and ast.get_docstring(each) is not None
        ):
            each.body = each.body[1:] or [ast.Pass()]
    return ast.unparse(node)


def own_node(code: CodeType, function: FunctionType) -> ast.AST | None:
    """The part of its file that is this function, or None unless that part compiles to just the code that runs.

    A file that was changed after it was imported shows other source than what runs.
    """
    # Not `inspect.getsource`: of a decorated function it shows what was decorated.
    source = linecache.getlines(code.co_filename, function.__globals__)
    known = _KNOWN.get(id(code))
    if known is not None and known[0] is code and known[1] is source:  # the file was not read again since
        return known[2]
    lines, nodes = _parsed("".join(source))
    found = nodes.get((lines.get(_facts(code), 0), code.co_name), [])
    own = found[0] if len(found) == 1 else None  # two lambdas in a line cannot be told apart
    if len(_KNOWN) >= _NODES_KEPT:
        _KNOWN.clear()
    _KNOWN[id(code)] = code, source, own
    return own


_KNOWN: dict[int, tuple[CodeType, list[str], ast.AST | None]] = {}
"""Functions that were found in their files, by the identity of their code, which is held so that no other takes its place."""


def mentioned(code: CodeType) -> set[str]:
    """Names of globals, of attributes and in strings, in a function and in the functions inside it."""
    names = {*code.co_names, *(each for each in code.co_consts if isinstance(each, str) and each.isidentifier())}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= mentioned(constant)
    return names


def of_matches(code: CodeType) -> set[str]:
    """`__match_args__`, if it matches classes, as by `case Point():`, and has a pattern such as `case Point(x, y)`, which asks the class for the names."""
    inner = (each for each in code.co_consts if isinstance(each, CodeType))
    found = {"__match_args__" for each in dis.get_instructions(code) if each.opname == "MATCH_CLASS"}
    return found.union(*map(of_matches, inner))


def only_counted(function: FunctionType) -> frozenset[str]:
    """Globals and variables of an outer function that it counts up and never looks at: `global calls; calls += 1`."""
    node = own_node(function.__code__, function)
    return frozenset() if node is None else _only_counted_in(node)


@functools.lru_cache(maxsize=_NODES_KEPT)
def _only_counted_in(node: ast.AST) -> frozenset[str]:
    declared = {name for n in ast.walk(node) if isinstance(n, ast.Global | ast.Nonlocal) for name in n.names}
    counted = {n.target.id for n in ast.walk(node) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)}
    loaded = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return frozenset((declared & counted) - loaded)


def read(function: FunctionType) -> set[str]:
    """The same without attributes that are only written or counted up, as in `self.calls += 1`."""
    node = own_node(function.__code__, function)
    names = mentioned(function.__code__)
    return names if node is None else names - (written(node) - _loaded(node))


@functools.lru_cache(maxsize=_NODES_KEPT)
def written(node: ast.AST) -> frozenset[str]:
    """Attributes that are assigned or counted up."""
    return frozenset(n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute) and not isinstance(n.ctx, ast.Load))


def counted(function: FunctionType) -> frozenset[str]:
    """Attributes that are counted up: `self.calls += 1` or `self.calls = self.calls + 1`."""
    node = own_node(function.__code__, function)
    return frozenset() if node is None else _counted_in(node)


@functools.lru_cache(maxsize=_NODES_KEPT)
def _counted_in(node: ast.AST) -> frozenset[str]:
    return frozenset(name for each in ast.walk(node) if (name := _counts(each)) is not None)


def _counts(node: ast.AST) -> str | None:
    """The attribute that a statement counts up."""
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Attribute):
        return node.target.attr
    if not (isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.BinOp)):
        return None
    target, before = node.targets[0], node.value.left
    if isinstance(target, ast.Attribute) and ast.unparse(target) == ast.unparse(before):
        return target.attr
    return None


def imported_inside(function: FunctionType) -> Iterator[ModuleType]:
    """Modules of the user's own that a function imports when it is called."""
    package = function.__globals__.get("__package__") or ""
    for name, level in sorted(set(_imports(function.__code__))):
        whole = _whole_name(name, level, package)
        for each in dict.fromkeys((whole.partition(".")[0], whole)):
            if each and not is_installed_name(each) and (module := _module(each)) is not None:
                yield module


def _whole_name(name: str, level: int, package: str) -> str:
    """The name of a module that is imported from so many packages up; "" if there are not so many."""
    above = package.split(".") if package else []
    if level > len(above):
        return ""
    return ".".join(part for part in (*above[: len(above) - level + 1], name) if part) if level else name


def _module(name: str) -> ModuleType | None:
    with suppress(Exception):  # it fails as it would when the function is called
        return sys.modules.get(name) or importlib.import_module(name)
    return None


def _imports(code: CodeType) -> Iterator[tuple[str, int]]:
    before = [0, 0]  # the last two constants: how many packages up, and which names
    for each in dis.get_instructions(code):
        if each.opname == "IMPORT_NAME":
            yield each.argval, before[0] if isinstance(before[0], int) else 0
        elif each.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
            before = [before[1], each.argval]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _imports(constant)


@functools.lru_cache(maxsize=256)
def _parsed(text: str) -> tuple[dict[Facts, int], dict[tuple[int, str], list[Function]]]:
    """Of a file: the line in which each function begins, by what it does; and the functions, by line and name."""
    try:
        tree = ast.parse(text)
        lines = {
            _facts(each): each.co_firstlineno for each in _codes(compile(text, "<source>", "exec", dont_inherit=True))
        }
    except (SyntaxError, ValueError, RecursionError):
        return {}, {}
    nodes: dict[tuple[int, str], list[Function]] = {}
    for each in ast.walk(tree):
        if isinstance(each, Function):
            nodes.setdefault((_first_line(each), _name(each)), []).append(each)
    return lines, nodes


def _codes(code: CodeType) -> list[CodeType]:
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return inner + [deeper for each in inner for deeper in _codes(each)]


def _name(node: Function) -> str:
    return "<lambda>" if isinstance(node, ast.Lambda) else node.name


def _first_line(node: Function) -> int:
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min([node.lineno, *(each.lineno for each in decorators)])


@functools.lru_cache(maxsize=_NODES_KEPT)
def _loaded(node: ast.AST) -> frozenset[str]:
    strings = {n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    patterns = {name for n in ast.walk(node) if isinstance(n, ast.MatchClass) for name in n.kwd_attrs}
    counts = {id(n.value.left) for n in ast.walk(node) if isinstance(n, ast.Assign) and _counts(n)}  # type: ignore[attr-defined]
    attributes = {
        n.attr
        for n in ast.walk(node)
        if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load) and id(n) not in counts
    }
    return frozenset(strings | patterns | attributes | {n.id for n in ast.walk(node) if isinstance(n, ast.Name)})


def _facts(code: CodeType) -> Facts:
    """All that a function does, but not where it stands."""
    constants = tuple(_facts(each) if isinstance(each, CodeType) else _constant(each) for each in code.co_consts)
    variables = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    return code.co_name, code.co_code, constants, *variables, *counts, code.co_exceptiontable


def _compiled_text(code: CodeType) -> str:
    constants = [_compiled_text(each) if isinstance(each, CodeType) else _constant(each) for each in code.co_consts]
    takes = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return f"{code.co_code.hex()} {constants} {names} {takes} {code.co_exceptiontable.hex()}"


def _constant(value: object) -> str:
    # `x in {"a", "b"}` has a frozen set, whose order differs from process to process.
    return f"set {sorted(map(_constant, value))}" if isinstance(value, frozenset) else repr(value)
