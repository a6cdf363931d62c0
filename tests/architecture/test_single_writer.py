"""Only occurrences/transitions.py changes a state; other modules may insert rows, and read.

`occurrences/swift.py` and `occurrences/swift_endings.py` are its other hand: raw statements, which only
`transitions` may send, and which are held to the same tables here.
"""

import ast
import re
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from punctual.occurrences.states import ATTEMPT_FINAL, OCCURRENCE_MOVES, RUN_MOVES, AttemptState
from punctual.occurrences.swift import Columns, claim_many_sql, claim_one_sql
from punctual.occurrences.swift_endings import CLOSE, COMPLETE_MANY, COMPLETE_ONE, END_MANY, END_ONE
from tests.architecture.source import Module, called_name, module, modules, texts

WRITER = "occurrences/transitions.py"
SWIFT = {"occurrences/swift.py", "occurrences/swift_endings.py"}
COLUMNS = Columns(("id",), ("id",), ("id",), ("id",))
UPSERT = re.compile(r"INSERT INTO (\w+)(?:(?!INSERT INTO).)*?DO UPDATE SET", re.DOTALL)
STATEMENTS = [
    UPSERT.sub(r"UPDATE \1 SET", sql)
    for sql in (
        *(claim_one_sql(COLUMNS), claim_many_sql(COLUMNS)),
        *(COMPLETE_ONE, COMPLETE_MANY, END_ONE, END_MANY, CLOSE),
    )
]
MOVES: dict[str, Mapping[Any, Collection[Any]]] = {
    "punctual_occurrence": OCCURRENCE_MOVES,
    "punctual_taskrun": RUN_MOVES,
    "punctual_attempt": {AttemptState.RUNNING: ATTEMPT_FINAL},
}
CHAINED = {"punctual_taskrun": (("claimed", "running"), ("running", "success"))}
UPDATES = {
    *("update", "aupdate", "bulk_update", "abulk_update", "update_or_create", "aupdate_or_create"),
    *("save", "asave", "setattr"),
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
    found = [place for module in modules() if module.path not in {WRITER, *SWIFT} for place in writes(module)]
    assert found == []


@pytest.mark.req("OCC-3")
def test_raw_statements_are_sent_by_the_one_writer_only() -> None:
    """Others may name the values they are made of, not what sends them."""
    whole = {"swift", "swift_endings"}
    senders = {"claim_one", "claim_many", "complete_one", "complete_many", "end_one", "end_many", "close"}
    found = [
        f"{module.path}: {name.name}"
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom)
        and node.module in {"punctual.occurrences", *(f"punctual.occurrences.{name}" for name in whole)}
        for name in node.names
        if name.name in (whole if node.module == "punctual.occurrences" else senders)
    ]
    assert found == [f"{WRITER}: swift", f"{WRITER}: swift_endings"]


def raw_moves(sql: str) -> list[tuple[str, set[str], set[str]]]:
    """Of each UPDATE in a statement: its table, the states its guard lets in, the states it leads to."""
    found = []
    for part in re.findall(r"UPDATE\s+(\w+)(.*?)(?=RETURNING|\n    \)|\Z)", sql, re.DOTALL):
        table, (change, _, guard) = part[0], part[1].partition("WHERE")
        assigned = re.search(r"\bstate = (.*?),\s", change, re.DOTALL)
        sources = set(
            re.findall(
                r"'(\w+)'", " ".join(re.findall(r"\bstate(?: \|\| ''\))? (?:= '\w+'|IN \([^)]*\))", guard))
            )
        )
        found.append((table, sources, set(re.findall(r"'(\w+)'", assigned[1])) if assigned else set()))
    return found


@pytest.mark.req("OCC-3", "TSK-1")
def test_raw_statements_move_along_the_tables_only() -> None:
    moves = [move for sql in STATEMENTS for move in raw_moves(sql)]
    assert len(moves) == sum(sql.count("UPDATE punctual_") for sql in STATEMENTS) == 15
    for table, sources, targets in moves:
        assert sources, f"an UPDATE of {table} without a guard"
        assert targets
        for source in sources:
            reached = {str(state) for state in MOVES[table][source]}
            # Two moves in one statement: scheduled → claimed → running, and claimed → running → success.
            reached |= {end for middle, end in CHAINED.get(table, ()) if middle in reached}
            assert targets <= reached, (table, source, targets)


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
