"""Raw SQL stands in one module per room at most, in four in all; everything else uses the ORM."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.source import Module, called_name, calls, module, modules, texts

HOMES = {
    "jobs/database.py",
    "occurrences/sql.py",
    "execution/worker/database_session.py",
    "beat/postgres.py",
}
STATEMENT = re.compile(
    r"""\s*\(*\s*(
        SELECT\b | INSERT\s+(OR\s+\w+\s+)?INTO\b | UPDATE\b.*\bSET\b | DELETE\s+FROM\b | WITH\b.*\bAS\b
      | (CREATE|ALTER|DROP)\s+(OR\s+REPLACE\s+)?(FUNCTION|TRIGGER|TABLE|INDEX|VIEW)\b | TRUNCATE\s
      | SET\s+(LOCAL\s+|SESSION\s+)?[\w.]+\s*(=|TO\b|ALL\b) | (LISTEN|NOTIFY|UNLISTEN)\s
    )""",
    re.VERBOSE | re.DOTALL,
)
RAW = {"raw", "RawSQL", "RunSQL", "extra"}  # of Django
DRIVER = re.compile(r"cursor|connection|listener", re.IGNORECASE)  # whose `execute` takes a statement


def statements(module: Module) -> Iterator[str]:
    """Texts that begin like a statement; an f-string is read as a whole, docstrings are not read."""
    skipped = {*docstrings(module.tree), *parts_of_f_strings(module.tree)}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and node not in skipped:
            yield from (text for text in texts(node) if STATEMENT.match(text))


def docstrings(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant() as text):
                yield text


def parts_of_f_strings(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield from node.values


def executions(module: Module) -> Iterator[str]:
    """Calls that pass a statement to the database: of a cursor, and Django's own ways around the ORM."""
    for call in calls(module):
        match call.func:
            case ast.Attribute(attr="execute" | "executemany", value=owner):
                if DRIVER.search(ast.unparse(owner)):
                    yield module.at(call)
            case _ if called_name(call) in RAW:
                yield module.at(call)


def has_raw_sql(module: Module) -> bool:
    return any(True for _ in statements(module)) or any(True for _ in executions(module))


def test_raw_sql_stands_in_its_homes_only() -> None:
    found = {m.path for m in modules() if has_raw_sql(m)}
    assert found == HOMES


def test_there_is_one_home_per_room_and_four_in_all() -> None:
    assert len({path.partition("/")[0] for path in HOMES}) == len(HOMES) <= 4


@pytest.mark.parametrize(
    "code",
    [
        'QUERY = "SELECT 1"',
        'QUERY = """\n    WITH old AS (SELECT 1) SELECT * FROM old"""',
        'def sql(table): return f"UPDATE {table} SET state = %s"',
        'COUNT = "(SELECT count(*) FROM job)"',
        'cursor.execute("VACUUM")',
        "connection.cursor().execute(made_elsewhere)",
        "Job.objects.raw(made_elsewhere)",
        "RawSQL(made_elsewhere, [])",
        'listener.execute(f"LISTEN {CHANNEL}")',
    ],
)
def test_the_scan_finds_raw_sql(code: str) -> None:
    assert has_raw_sql(module("jobs/example.py", code))


@pytest.mark.parametrize(
    "code",
    [
        '"""SELECT is what this module never writes."""',
        'HINT = "Select a job"',
        'HINT = "UPDATE is refused"',
        'HINT = "WITHOUT a schedule"',
        "action.execute(form)",
    ],
)
def test_the_scan_leaves_other_texts_and_calls_alone(code: str) -> None:
    assert not has_raw_sql(module("jobs/example.py", code))
