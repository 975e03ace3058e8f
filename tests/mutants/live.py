"""Puts a mutant into the running process: another `__code__` for live functions, another value for a constant."""

import ast
import functools
import gc
import sys
from collections import defaultdict
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from tests.mutants.changes import Change

Where = tuple[str, str, int]
"""File, qualified name and first line of a function's code."""


class NotApplicable(Exception):
    """A mutant that cannot be put in place, with the reason."""


class NotComputable(Exception):
    """A constant whose mutated expression fails: its module could not be imported."""


class Live:
    """The functions of a package that exist now, found by their code: whatever they are wrapped in."""

    def __init__(self, root: Path, package: str) -> None:
        self.root, self.package = root, package
        self._functions: dict[Where, list[FunctionType]] = defaultdict(list)
        self._caches: list[Any] = []
        for thing in gc.get_objects():
            # By type, not isinstance: that would ask lazy objects for their class, and some warn.
            if type(thing) is FunctionType and thing.__code__.co_filename.startswith(str(root)):
                self._functions[_where(thing.__code__)].append(thing)
            elif type(thing) is functools._lru_cache_wrapper and str(thing.__module__).startswith(package):
                self._caches.append(thing)

    def codes(self, change: Change) -> set[int]:
        """Ids of the codes that run the mutant: its function and those inside it, or all that read the constant."""
        if change.outer is not None:
            return {id(code) for function in self._found(change) for code in _all_codes(function.__code__)}
        every = (code for found in self._functions.values() for f in found for code in _all_codes(f.__code__))
        return {id(code) for code in every if change.where in code.co_names}

    def apply(self, change: Change) -> None:
        """Change this process. There is no way back: call it in a child."""
        if change.outer is None:
            self._set_constant(change)
            return
        functions = self._found(change)
        if not functions:
            raise NotApplicable("no live function has this code; was the file edited since it was imported?")
        with change.made() as tree:
            code = self._code(change, tree)
        if code is None:
            raise NotApplicable("the function is gone from the mutated source")
        for function in functions:
            try:
                function.__code__ = code
            except ValueError as error:  # other free variables
                raise NotApplicable(str(error)) from None
        self.forget()

    def forget(self) -> None:
        """Empty the package's caches of earlier results, which a mutant must not be served from."""
        for cache in self._caches:
            cache.cache_clear()

    def _found(self, change: Change) -> list[FunctionType]:
        code = self._code(change, change.tree) if change.outer is not None else None
        return [f for f in self._functions[_where(code)] if f.__code__ == code] if code else []

    def _code(self, change: Change, tree: ast.Module) -> CodeType | None:
        outer = change.outer
        assert outer is not None
        line = min(part.lineno for part in (outer, *outer.decorator_list))
        module = compile(tree, str(self.root / change.file), "exec")
        named = (code for code in _all_codes(module) if code.co_name == outer.name)
        return next((code for code in named if code.co_firstlineno == line), None)

    def _set_constant(self, change: Change) -> None:
        """Set the constant wherever it was imported to."""
        module = self._module(change)
        name, old = change.where, getattr(module, change.where)
        with change.made() as tree:
            statement = next(s for s in tree.body if isinstance(s, ast.Assign) and _targets(s, name))
            code = compile(ast.Expression(statement.value), change.file, "eval")
        try:
            new = eval(code, vars(module))
        except Exception as error:
            raise NotComputable(f"{type(error).__name__}: {error}") from None
        for holder in [m for n, m in sys.modules.items() if n.split(".")[0] == self.package]:
            if vars(holder).get(name) is old:
                setattr(holder, name, new)
        self.forget()

    def _module(self, change: Change) -> ModuleType:
        path = str(self.root / change.file)
        return next(m for m in list(sys.modules.values()) if getattr(m, "__file__", None) == path)


def _targets(statement: ast.Assign, name: str) -> bool:
    return isinstance(statement.targets[0], ast.Name) and statement.targets[0].id == name


def _where(code: CodeType) -> Where:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _all_codes(code: CodeType) -> list[CodeType]:
    inner = [part for part in code.co_consts if isinstance(part, CodeType)]
    return [code, *(each for part in inner for each in _all_codes(part))]
