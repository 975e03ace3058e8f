"""What a mutant may change. Each operator takes a node of the syntax tree and yields what may stand in its place."""

import ast
from collections.abc import Callable, Iterator

Operator = Callable[[ast.AST], Iterator[ast.AST]]

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
}
LISTS = (ast.List, ast.ListComp, ast.Tuple, ast.JoinedStr)
"""What is joined to others by +, and cannot be taken from them."""
MASKS: dict[type[ast.operator], type[ast.operator]] = {ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd}
PAIRS = [
    ("min", "max"), ("minimum", "maximum"), ("argmin", "argmax"), ("floor", "ceil"), ("any", "all"),
    ("SELECTION", "ESTIMATION"), ("selection", "estimation"), ("clopper_pearson_lower", "clopper_pearson_upper"),
    ("wilson_lower", "wilson_upper"), ("agresti_coull_lower", "agresti_coull_upper"), ("lower_alpha", "upper_alpha"),
]  # fmt: skip
TWINS = {a: b for pair in PAIRS for a, b in (pair, pair[::-1])}
NOT_NUMBERS = {"axis", "maxsize", "ndmin", "stacklevel"}
"""Keyword arguments whose numbers are no quantities."""


def compare(node: ast.AST) -> Iterator[ast.AST]:
    """a < b -> a <= b, a == b -> a != b; in a chain one at a time."""
    if isinstance(node, ast.Compare):
        for i, op in enumerate(node.ops):
            if type(op) in COMPARISONS:
                ops = [*node.ops[:i], COMPARISONS[type(op)](), *node.ops[i + 1 :]]
                yield ast.Compare(node.left, ops, node.comparators)


def arithmetic(node: ast.AST) -> Iterator[ast.AST]:
    """a + b -> a - b, a * b -> a / b, a ** b -> a * b; a += b -> a -= b."""
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        yield ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
    if isinstance(node, ast.AugAssign) and type(node.op) in ARITHMETIC and not isinstance(node.value, LISTS):
        yield ast.AugAssign(node.target, ARITHMETIC[type(node.op)](), node.value)


def mask(node: ast.AST) -> Iterator[ast.AST]:
    """a & b -> a | b."""
    if isinstance(node, ast.BinOp) and type(node.op) in MASKS:
        yield ast.BinOp(node.left, MASKS[type(node.op)](), node.right)


def number(node: ast.AST) -> Iterator[ast.AST]:
    """7 -> 8, 0.25 -> 0.5, 0.0 -> 1.0."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield ast.Constant(node.value + 1)
    if isinstance(node, ast.Constant) and type(node.value) is float:
        yield ast.Constant(2 * node.value or 1.0)


def undivided(node: ast.AST) -> Iterator[ast.AST]:
    """alpha / 2 -> alpha, alpha / claims -> alpha, x / 2 -> x: an error that is not shared out."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        halved = isinstance(node.right, ast.Constant) and node.right.value == 2
        if halved or "alpha" in ast.unparse(node.left):
            yield node.left


def boolean(node: ast.AST) -> Iterator[ast.AST]:
    """a and b -> a or b; not a -> a; ~a -> a."""
    if isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert):
        yield node.operand


def twin(node: ast.AST) -> Iterator[ast.AST]:
    """min -> max, floor -> ceil, any -> all, the selection's votes -> the estimation's."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in TWINS:
        yield ast.Name(TWINS[node.id], ast.Load())
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and node.attr in TWINS:
        yield ast.Attribute(node.value, TWINS[node.attr], ast.Load())


def branch(node: ast.AST) -> Iterator[ast.AST]:
    """x if c else y -> x, and -> y."""
    if isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)


def way_out(node: ast.AST) -> Iterator[ast.AST]:
    """if c: return -> always, and -> never. Before a raise only never: always would fail any test."""
    if isinstance(node, ast.If) and isinstance(node.body[-1], ast.Raise | ast.Return | ast.Continue):
        yield ast.If(ast.Constant(False), node.body, node.orelse)
        if not isinstance(node.body[-1], ast.Raise):
            yield ast.If(ast.Constant(True), node.body, node.orelse)


def call(node: ast.AST) -> Iterator[ast.AST]:
    """A call for its effect alone is left out."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield ast.Pass()


def cut(node: ast.AST) -> Iterator[ast.AST]:
    """[:k] -> [:k + 1], [k:] -> [k + 1:]. Cuts at plain numbers are left to `number`."""
    if isinstance(node, ast.Slice):
        if node.upper is not None and not _is_number(node.upper):
            yield ast.Slice(node.lower, _one_more(node.upper), node.step)
        if node.lower is not None and not _is_number(node.lower):
            yield ast.Slice(_one_more(node.lower), node.upper, node.step)


def _is_number(node: ast.expr) -> bool:
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


def _one_more(node: ast.expr) -> ast.expr:
    return ast.BinOp(node, ast.Add(), ast.Constant(1))


OF_CONSTANTS: tuple[Operator, ...] = (number, arithmetic)
"""For assignments at the top of a module, where | joins types."""
OPERATORS: tuple[Operator, ...] = (
    *OF_CONSTANTS, compare, mask, undivided, boolean, twin, branch, way_out, call, cut,
)  # fmt: skip


def left_alone(node: ast.AST) -> bool:
    """Words for people are not mutated: docstrings, messages of errors and warnings, `__repr__`, callers' progress."""
    if isinstance(node, ast.FunctionDef):
        return node.name in ("__repr__", "__str__")
    if isinstance(node, ast.keyword):
        return node.arg in NOT_NUMBERS
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).split(".")[-1] in ("warn", "progress")
    return isinstance(node, ast.Raise | ast.Import | ast.ImportFrom)
