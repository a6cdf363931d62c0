"""Find which test carries which @pytest.mark.req, without importing the test files."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

Marks = dict[str, set[str]]  # requirement id → tests as `path::name`


def marks_in(folder: Path, root: Path) -> Marks:
    found: Marks = defaultdict(set)
    for path in sorted(folder.rglob("test_*.py")):
        name = path.relative_to(root).as_posix()
        for id_, test in marks_of(ast.parse(path.read_text(), name), name):
            found[id_].add(test)
    return dict(found)


def marks_of(tree: ast.Module, name: str) -> Iterator[tuple[str, str]]:
    """A mark on a module or a class counts for every test in it."""
    yield from _marks(tree.body, name, inherited=set(_assigned(tree.body)))


def _marks(body: list[ast.stmt], prefix: str, inherited: set[str]) -> Iterator[tuple[str, str]]:
    for node in body:
        match node:
            case ast.ClassDef() if node.name.startswith("Test"):
                ids = inherited | set(_ids(node.decorator_list)) | set(_assigned(node.body))
                yield from _marks(node.body, f"{prefix}::{node.name}", ids)
            case ast.FunctionDef() | ast.AsyncFunctionDef() if node.name.startswith("test_"):
                for id_ in inherited | set(_ids(node.decorator_list)):
                    yield id_, f"{prefix}::{node.name}"


def _assigned(body: list[ast.stmt]) -> Iterator[str]:
    """Read `pytestmark = [pytest.mark.req("…")]`."""
    for node in body:
        match node:
            case ast.Assign(targets=[ast.Name(id="pytestmark")], value=value):
                yield from _ids([value])


def _ids(expressions: Iterable[ast.expr]) -> Iterator[str]:
    """Return the ids of every `….req(…)` in the expressions, including those inside pytest.param."""
    for node in (node for expression in expressions for node in ast.walk(expression)):
        match node:
            case ast.Call(func=ast.Attribute(attr="req", value=ast.Attribute(attr="mark"))):
                for argument in node.args:
                    yield str(ast.literal_eval(argument))  # a computed id cannot be read here
