"""The code of a function as text, without comments, layout and docstrings."""

import ast
import inspect
import textwrap
from types import CodeType, FunctionType
from typing import Any

MOST_KNOWN = 4_096
_known: dict[int, tuple[CodeType, str]] = {}
"""Texts by the address of the code, which is kept alive: equal code may come from sources that differ."""


def code_text(function: FunctionType) -> str:
    """What a function does: its source in one form, or, if there is none that is surely its own, its compiled code.

    Compiled code begins with a zero byte. It is another in other versions of Python.
    """
    code = function.__code__  # never changes; a function may be given another
    known = _known.get(id(code))
    if known is None:
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        known = _known[id(code)] = code, _text(function)
    return known[1]


def _text(function: FunctionType) -> str:
    node = _own_node(function)
    if node is None:
        return f"\0{_compiled_text(function.__code__)}"
    for each in ast.walk(node):
        if (
            isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            and ast.get_docstring(each) is not None
        ):
            each.body = each.body[1:] or [ast.Pass()]
    return ast.unparse(node)


def code_names(code: CodeType) -> set[str]:
    """Names of globals and attributes in a function and in the functions inside it."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= code_names(constant)
    return names


def _own_node(function: FunctionType) -> ast.AST | None:
    """The part of the source that is this function, or None if that is not certain."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        compiled = compile(tree, "<source>", "exec")
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)]
    nodes = [n for n in nodes if getattr(n, "name", "<lambda>") == function.__code__.co_name]
    # Two functions of one name in one piece of source, such as two lambdas in a line, cannot be told apart by it.
    if len(nodes) != 1:
        return None
    # A file that was changed after it was imported shows other source than what runs.
    ours, found = (
        _facts(function.__code__),
        [_facts(c) for c in _codes(compiled) if c.co_name == function.__code__.co_name],
    )
    return nodes[0] if found == [ours] else None


def _codes(code: CodeType) -> list[CodeType]:
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return inner + [deeper for each in inner for deeper in _codes(each)]


def _facts(code: CodeType) -> tuple[Any, ...]:
    """What is the same whether a function is compiled by itself or inside another: not how its variables are looked up."""
    names = {*code.co_names, *code.co_freevars} - {"__class__"}
    constants = [repr(each) for each in code.co_consts if not isinstance(each, CodeType)]
    inner = [_facts(each) for each in code.co_consts if isinstance(each, CodeType)]
    return code.co_varnames[: code.co_argcount], names, constants, inner


def _compiled_text(code: CodeType) -> str:
    constants = [_compiled_text(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return f"{code.co_code.hex()} {constants} {code.co_names} {code.co_varnames} {code.co_freevars}"
