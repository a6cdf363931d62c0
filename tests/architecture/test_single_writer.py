"""Only occurrences/transitions.py changes a state; everybody else may insert rows, and ask."""

import ast
import re

import pytest

from tests.architecture.source import Module, called_name, module, modules, texts

WRITER = "occurrences/transitions.py"
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
    found = [place for module in modules() if module.path != WRITER for place in writes(module)]
    assert found == []


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
        """cursor.execute("UPDATE occurrences_taskrun SET reason = '', state = 'dlq'")""",
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
        """cursor.execute("SELECT state FROM occurrences_taskrun")""",
    ],
)
def test_the_scan_lets_inserts_and_questions_pass(code: str) -> None:
    assert writes(module("example.py", code)) == []
