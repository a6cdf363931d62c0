"""CHECK constraints with a name for each rule: one function on PostgreSQL, plain CHECKs elsewhere.

PostgreSQL parses the text of a CHECK anew for every statement, and a list of states is a long text: for the
few columns a worker writes of one run, that took longer than the write. A function is parsed once for each
connection. The name of the violated rule is in the error.
"""

from collections.abc import Mapping
from typing import Any

from django.db.models import CheckConstraint, Model, Q
from django.db.models.sql import Query

from punctual.jobs.database import create_rules_function, drop_rules_function


class Rules(CheckConstraint):
    """Conditions that every row of a table satisfies, by name."""

    def __init__(self, *, name: str, rules: Mapping[str, Q]) -> None:
        self.rules = dict(sorted(rules.items()))  # as a migration writes them
        super().__init__(name=name, condition=Q(*self.rules.values()))

    def deconstruct(self) -> Any:
        path, args, kwargs = super().deconstruct()
        del kwargs["condition"]
        return path, args, kwargs | {"rules": self.rules}

    def constraint_sql(self, model: Any, schema_editor: Any) -> str:
        """Inside CREATE TABLE; without the function, each rule under its own name."""
        if not self._create_function(model, schema_editor):
            return ", ".join(
                str(schema_editor._check_sql(rule, _sql(condition, model, schema_editor)))  # noqa: SLF001 - as upstream does
                for rule, condition in self.rules.items()
            )
        return str(schema_editor._check_sql(self.name, self._call(model)))  # noqa: SLF001

    def create_sql(self, model: Any, schema_editor: Any) -> Any:
        if not self._create_function(model, schema_editor):
            return super().create_sql(model, schema_editor)
        return schema_editor._create_check_sql(model, self.name, self._call(model))  # noqa: SLF001

    def remove_sql(self, model: Any, schema_editor: Any) -> Any:
        statement = super().remove_sql(model, schema_editor)
        types = (_type_name(field, schema_editor) for field in self._fields(model))
        return drop_rules_function(schema_editor, statement, self.name, types)

    def _create_function(self, model: type[Model], schema_editor: Any) -> bool:
        """False where the rules are plain CHECKs.

        The parameters have the names of the columns, so each rule reads as it would in a CHECK.
        """
        parameters = (f'"{field.column}" {_type_name(field, schema_editor)}' for field in self._fields(model))
        rules = {rule: _sql(condition, model, schema_editor) for rule, condition in self.rules.items()}
        return create_rules_function(schema_editor, self.name, parameters, rules)

    def _call(self, model: type[Model]) -> str:
        columns = ", ".join(f'"{field.column}"' for field in self._fields(model))
        return f"{self.name}({columns})"

    def _fields(self, model: Any) -> list[Any]:
        """The fields that the rules refer to."""
        names = {path[0] for path in model._get_expr_references(self.condition)}  # noqa: SLF001 - as upstream does
        return [field for field in model._meta.concrete_fields if field.name in names]


def _type_name(field: Any, schema_editor: Any) -> str:
    # Parameters have no length: a text that is too long is refused by its column.
    return str(field.db_type(schema_editor.connection)).partition("(")[0]


def _sql(condition: Q, model: type[Model], schema_editor: Any) -> str:
    query = Query(model=model, alias_cols=False)
    compiler = query.get_compiler(connection=schema_editor.connection)
    sql, params = query.build_where(condition).as_sql(compiler, schema_editor.connection)
    return str(sql % tuple(schema_editor.quote_value(value) for value in params))
