"""The project's own modules as syntax trees; architecture tests read code, they do not run it."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The flow reads left to right; imports and foreign keys point left.
FLOW = (
    "schedules",
    "jobs",
    "occurrences",
    "execution",
    "recovery",
    "operations",
    "beat",
    "polling",
    "console",
    "punctual",
    "scheduler_project",
)


@dataclass(frozen=True)
class Module:
    path: str  # relative to the project, with forward slashes
    text: str
    tree: ast.Module

    def at(self, node: ast.AST) -> str:
        return f"{self.path}:{getattr(node, 'lineno', 0)}"


def module(path: str, text: str) -> Module:
    return Module(path, text, ast.parse(text, filename=path))


@cache
def modules() -> tuple[Module, ...]:
    """Everything we ship but migrations, which are history."""
    return tuple(
        module(path.relative_to(ROOT).as_posix(), path.read_text())
        for package in FLOW
        for path in sorted((ROOT / package).rglob("*.py"))  # does not follow the links of punctual/
        if "migrations" not in path.parts
    )


def calls(module: Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(module.tree) if isinstance(node, ast.Call))


def called_name(call: ast.Call) -> str:
    """The last part of what is called: `update` for `Job.objects.filter(…).update`."""
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def texts(node: ast.AST) -> Iterator[str]:
    """String constants under a node; an f-string is one text with its holes left out."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(
            part.value
            for part in node.values
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
        )
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for child in ast.iter_child_nodes(node):
        yield from texts(child)
