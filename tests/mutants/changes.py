"""All mutants of a source file: where each changes the syntax tree, and the name by which it is known."""

import ast
import builtins
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from tests.mutants.operators import OF_CONSTANTS, OPERATORS, Operator, left_alone

LONGEST_TEXT = 70
SKIPPED_FIELDS = {"annotation", "returns", "decorator_list", "args", "defaults", "kw_defaults", "type_comment"}
"""Of functions and assignments: what is no behaviour, and defaults, which are evaluated when the function is made."""
SHOWN = (ast.expr, ast.keyword, ast.Assign, ast.AugAssign, ast.Return, ast.Expr)
"""What surrounds a change and may be shown with it."""


@dataclass(frozen=True)
class Place:
    """Where a node hangs in the tree: a field of its parent, or an element of a list there."""

    parent: ast.AST
    field: str
    index: int | None

    def get(self) -> Any:
        value = getattr(self.parent, self.field)
        return value if self.index is None else value[self.index]

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


@dataclass(frozen=True)
class Change:
    """One mutant: another node at one place of a file's tree."""

    file: str
    """Below src/recert."""
    where: str
    """Qualified name of the function, or of the constant."""
    outer: ast.FunctionDef | None
    """The outermost function around it; None for a constant of the module."""
    tree: ast.Module
    place: Place
    new: ast.AST
    line: int
    text: str

    @property
    def key(self) -> str:
        """The mutant's name. It does not change when lines move."""
        return f"{self.file} {self.where}: {self.text}"

    @contextmanager
    def made(self) -> Iterator[ast.Module]:
        """The file's tree, changed for as long as it is needed."""
        old = self.place.get()
        self.place.put(self.new)
        try:
            yield self.tree
        finally:
            self.place.put(old)


def changes_of(source: str, file: str) -> list[Change]:
    """All mutants of a source text, in order of lines."""
    tree = ast.parse(source)
    found = sorted(_of_module(tree, file), key=lambda change: change.line)
    distinct = {(id(c.place.get()), c.text, ast.unparse(c.new)): c for c in found}
    return _numbered(list(distinct.values()))


def _numbered(changes: list[Change]) -> list[Change]:
    """Tell mutants of one function apart that read the same, by a number at the end of the text."""
    seen: Counter[str] = Counter()
    named = []
    for change in changes:
        seen[change.key] += 1
        count = seen[change.key]
        named.append(change if count == 1 else replace(change, text=f"{change.text} #{count}"))
    return named


def _of_module(tree: ast.Module, file: str) -> Iterator[Change]:
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | set(dir(builtins))
    names |= {alias.asname or alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom | ast.Import) for alias in node.names}  # fmt: skip
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            constant = statement.targets[0].id
            if constant != "__all__":
                maker = _Maker(file, constant, None, tree, names, OF_CONSTANTS)
                yield from maker.below(statement, [], ("value",))
        for outer, qualname in _functions(statement, ""):
            maker = _Maker(file, qualname, outer, tree, names, OPERATORS)
            yield from maker.below(outer, [], ("body",))


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[ast.FunctionDef, str]]:
    """Functions of a module and methods of its classes, with their qualified names."""
    if isinstance(node, ast.FunctionDef) and not left_alone(node):
        yield node, prefix + node.name
    if isinstance(node, ast.ClassDef):
        for child in node.body:
            yield from _functions(child, f"{prefix}{node.name}.")


@dataclass(frozen=True)
class _Maker:
    """Makes the changes of one function or constant."""

    file: str
    where: str
    outer: ast.FunctionDef | None
    tree: ast.Module
    names: set[str]
    operators: tuple[Operator, ...]

    def below(self, node: ast.AST, above: list[ast.AST], fields: Sequence[str]) -> Iterator[Change]:
        for field in fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                for i, child in enumerate(value):
                    yield from self._at(Place(node, field, i), child, [*above, node])
            elif isinstance(value, ast.AST):
                yield from self._at(Place(node, field, None), value, [*above, node])

    def _at(self, place: Place, node: Any, above: list[ast.AST]) -> Iterator[Change]:
        if not isinstance(node, ast.AST) or left_alone(node):
            return
        for operator in self.operators:
            for new in operator(node):
                if isinstance(new, ast.Name) and new.id not in self.names:
                    continue  # a name that this module does not have would fail any test
                yield self._change(place, node, ast.fix_missing_locations(ast.copy_location(_copied(new), node)), above)
        inner = self
        if isinstance(node, ast.FunctionDef):
            inner = replace(self, where=f"{self.where}.{node.name}")
        skipped = SKIPPED_FIELDS if isinstance(node, ast.FunctionDef | ast.AnnAssign | ast.Lambda) else ()
        yield from inner.below(node, above, [field for field in node._fields if field not in skipped])

    def _change(self, place: Place, old: ast.AST, new: ast.AST, above: list[ast.AST]) -> Change:
        change = Change(self.file, self.where, self.outer, self.tree, place, new, old.lineno, "")
        return replace(change, text=_text(change, [*above, old]))


def _copied(node: ast.AST) -> ast.AST:
    """A node of its own, so that locations are not set on a node that stands elsewhere too."""
    return type(node)(**dict(ast.iter_fields(node)))


def _text(change: Change, above: list[ast.AST]) -> str:
    """Old and new source: of the largest expression or statement around the change that is short enough to read."""
    around: ast.AST | None = None
    for node in reversed(above[:-1]):
        if not isinstance(node, SHOWN) or len(ast.unparse(node)) > LONGEST_TEXT:
            break
        around = node
    if around is None:
        return f"`{_shown(above[-1])}` -> `{_shown(change.new)}`"
    before = _shown(around)
    with change.made():
        return f"`{before}` -> `{_shown(around)}`"


def _shown(node: ast.AST) -> str:
    """One line of source. Of a condition its head alone."""
    text = f"if {ast.unparse(node.test)}:" if isinstance(node, ast.If) else ast.unparse(node)
    return " ".join(text.split())
