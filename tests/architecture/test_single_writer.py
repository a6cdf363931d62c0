"""Only occurrences/transitions.py changes a state; other modules may insert rows, and read.

It sends claims and endings through an engine of `occurrences/engines`; other modules may use an engine for
bulk inserts, locks and questions only. The engines are held to the tables of moves by
tests/occurrences/engines/test_moves.py.
"""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.source import Module, called_name, module, modules, texts

WRITER = "occurrences/transitions.py"
ENGINES = {"occurrences/engines/portable.py", "occurrences/engines/postgresql.py"}
CHOICE = "occurrences/engines/current.py"
STATEMENTS = "occurrences/sql.py"
STATE_STEPS = {"claim", "end", "close"}  # of an engine
PACKAGE = "punctual.occurrences.engines"
CONTRACT = f"{PACKAGE}.contract"
VALUES = {
    *("ClaimedRun", "Closing", "Cutoff", "Ended", "OccurrenceFacts", "RunEnd", "RunFacts", "Take", "Wait"),
    "Engine",  # a protocol: it has no code
}
CONSTANTS = {"Row", "FIRST_ID", "FIRST_INSTANT"}
UPDATES = {
    *("update", "aupdate", "bulk_update", "abulk_update", "update_or_create", "aupdate_or_create"),
    *("save", "asave", "setattr", "update_rows"),
}
RAW_UPDATE = re.compile(r'\bUPDATE\b.+?\bSET\b(?:(?!\bWHERE\b).)*?\bstate"?\s*=', re.DOTALL)


def writes(module: Module) -> list[str]:
    """Places where an existing row's state may change."""
    return sorted({module.at(node) for node in ast.walk(module.tree) if is_write(node)})


def is_write(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(attr="state", ctx=ast.Store() | ast.Del()):
            return True
        case ast.Constant() | ast.JoinedStr():
            return any(RAW_UPDATE.search(text) for text in texts(node))
        case ast.Call():
            return names_state(node)
    return False


def names_state(call: ast.Call) -> bool:
    """`update(state=…)`, `bulk_update(rows, ["state"])`, `setattr(row, "state", …)` …"""
    if called_name(call) not in UPDATES:
        return False
    named = any(keyword.arg == "state" for keyword in call.keywords)
    return named or any("state" in texts(part) for part in [*call.args, *call.keywords])


@pytest.mark.req("OCC-3")
def test_no_other_module_writes_a_state() -> None:
    found = [
        place
        for module in modules()
        if module.path not in {WRITER, STATEMENTS, *ENGINES}
        for place in writes(module)
    ]
    assert found == []


def engine_imports(module: Module) -> Iterator[str]:
    """The full names of what a module imports of the engines, by absolute or relative imports."""
    for node in ast.walk(module.tree):
        match node:
            case ast.Import(names=names):
                imported = [name.name for name in names]
            case ast.ImportFrom(names=names):
                origin = absolute_origin(module, node)
                imported = [f"{origin}.{name.name}" for name in names]
            case _:
                continue
        yield from (name for name in imported if f"{name}.".startswith(f"{PACKAGE}."))


def absolute_origin(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parents = ["punctual", *module.path.split("/")][: -node.level]
    return ".".join([*parents, *([node.module] if node.module else [])])


def is_value(name: str) -> bool:
    return name.rpartition(".")[0] == CONTRACT and name.rpartition(".")[2] in {*VALUES, *CONSTANTS}


def is_state_step(node: ast.AST) -> bool:
    """`engine().end(...)`"""
    match node:
        case ast.Attribute(attr=name, value=ast.Call(func=ast.Name(id="engine"))):
            return name in STATE_STEPS
    return False


@pytest.mark.req("OCC-3")
def test_steps_that_write_a_state_are_called_by_the_one_writer_only() -> None:
    found = {module.path for module in modules() for node in ast.walk(module.tree) if is_state_step(node)}
    assert found == {WRITER}


@pytest.mark.req("OCC-3")
def test_engines_and_their_statements_are_imported_where_they_are_chosen_only() -> None:
    found = [
        (module.path, name)
        for module in modules()
        for name in engine_imports(module)
        if not (is_value(name) or name == f"{PACKAGE}.current.engine")
    ]
    assert found == [(CHOICE, f"{PACKAGE}.portable"), (CHOICE, f"{PACKAGE}.postgresql")]
    senders = {
        module.path
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
        if f"{node.module}.{name.name}" == "punctual.occurrences.sql"
        or node.module == "punctual.occurrences.sql"
    }
    assert senders == {"occurrences/engines/postgresql.py"}


def test_the_contract_of_the_engines_has_nothing_but_values() -> None:
    (contract,) = [module for module in modules() if module.path == "occurrences/engines/contract.py"]
    defined = [node for node in contract.tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
    assert {node.name for node in defined if isinstance(node, ast.ClassDef)} == VALUES
    assert not [contract.at(node) for node in defined if isinstance(node, ast.FunctionDef)]
    assert writes(contract) == []


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("from punctual.occurrences.engines import postgresql", "postgresql"),
        ("from punctual.occurrences.engines.postgresql import end", "postgresql.end"),
        ("import punctual.occurrences.engines.portable as engine", "portable"),
        ("from .engines import portable", "portable"),
        ("from .engines.portable import claim", "portable.claim"),
        ("def later():\n    from ..occurrences.engines import portable", "portable"),
    ],
)
def test_the_scan_sees_an_import_of_an_engine(code: str, name: str) -> None:
    assert list(engine_imports(module("occurrences/example.py", code))) == [f"{PACKAGE}.{name}"]
    assert not is_value(f"{PACKAGE}.{name}")


@pytest.mark.parametrize(
    "code",
    [
        'run.state = "success"',
        'run.state += "x"',
        "Occurrence.objects.filter(pk=1).update(state=target, reason='x')",
        'rows.update(**{"state": target})',
        'TaskRun.objects.bulk_update(rows, ["reason", "state"])',
        'run.save(update_fields=["state"])',
        'Occurrence.objects.update_or_create(id=1, defaults={"state": "failed"})',
        'setattr(run, "state", "failed")',
        """cursor.execute("UPDATE punctual_taskrun SET reason = '', state = 'dlq'")""",
        """cursor.execute(f'UPDATE {table} SET "state" = %s WHERE id = %s')""",
    ],
)
def test_the_scan_sees_a_write(code: str) -> None:
    assert writes(module("example.py", code)) == ["example.py:1"]


@pytest.mark.parametrize(
    "code",
    [
        "TaskRun.objects.bulk_create([TaskRun(state=RunState.SCHEDULED)])",
        'Occurrence.objects.filter(state="pending").update(reason="x")',
        "if run.state == RunState.DLQ: pass",
        """cursor.execute("UPDATE t SET reason = %s WHERE state = %s")""",
        """cursor.execute("SELECT state FROM punctual_taskrun")""",
    ],
)
def test_the_scan_lets_inserts_and_questions_pass(code: str) -> None:
    assert writes(module("example.py", code)) == []
