"""What must be true of every row of a table → checked by the database: one function on PostgreSQL, plain
CHECKs elsewhere.

PostgreSQL reads the text of a CHECK anew for every statement, and a list of states is a long text: for the
few columns a worker writes of one run, that took longer than the writing. A function is read once for
each connection. Each rule keeps its name: it stands in the error of whoever breaks it.
"""

from collections.abc import Mapping
from typing import Any

from django.db.models import CheckConstraint, Model, Q
from django.db.models.sql import Query


class Rules(CheckConstraint):
    def __init__(self, *, name: str, rules: Mapping[str, Q]) -> None:
        self.rules = dict(sorted(rules.items()))  # as a migration writes them down
        super().__init__(name=name, condition=Q(*self.rules.values()))

    def deconstruct(self) -> Any:
        path, args, kwargs = super().deconstruct()
        del kwargs["condition"]
        return path, args, kwargs | {"rules": self.rules}

    def constraint_sql(self, model: Any, schema_editor: Any) -> str:
        """Inside CREATE TABLE; where there is no function for them, each rule under its own name."""
        if schema_editor.connection.vendor != "postgresql":
            return ", ".join(
                str(schema_editor._check_sql(rule, _sql(condition, model, schema_editor)))  # noqa: SLF001 - as upstream does
                for rule, condition in self.rules.items()
            )
        schema_editor.execute(self._function(model, schema_editor), None)
        return str(schema_editor._check_sql(self.name, self._call(model)))  # noqa: SLF001

    def create_sql(self, model: Any, schema_editor: Any) -> Any:
        if schema_editor.connection.vendor != "postgresql":
            return super().create_sql(model, schema_editor)
        schema_editor.execute(self._function(model, schema_editor), None)
        return schema_editor._create_check_sql(model, self.name, self._call(model))  # noqa: SLF001

    def remove_sql(self, model: Any, schema_editor: Any) -> Any:
        removed = super().remove_sql(model, schema_editor)
        if schema_editor.connection.vendor != "postgresql":
            return removed
        schema_editor.execute(removed)
        kinds = ", ".join(_kind(field, schema_editor) for field in self._fields(model))
        return f"DROP FUNCTION {self.name}({kinds})"

    def _function(self, model: type[Model], schema_editor: Any) -> str:
        """Its parameters are named as the columns are, so each rule reads as it would in a CHECK."""
        fields = self._fields(model)
        parameters = ", ".join(f'"{field.column}" {_kind(field, schema_editor)}' for field in fields)
        steps = "\n".join(
            f"IF NOT ({_sql(condition, model, schema_editor)}) THEN RAISE check_violation"
            f" USING CONSTRAINT = '{rule}', MESSAGE = 'row violates check constraint \"{rule}\"'; END IF;"
            for rule, condition in self.rules.items()
        )
        return (
            f"CREATE OR REPLACE FUNCTION {self.name}({parameters}) RETURNS boolean"
            f" LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $rules$ BEGIN {steps} RETURN true; END $rules$"
        )

    def _call(self, model: type[Model]) -> str:
        columns = ", ".join(f'"{field.column}"' for field in self._fields(model))
        return f"{self.name}({columns})"

    def _fields(self, model: Any) -> list[Any]:
        """Those the rules speak of."""
        named = {names[0] for names in model._get_expr_references(self.condition)}  # noqa: SLF001 - as upstream does
        return [field for field in model._meta.concrete_fields if field.name in named]


def _kind(field: Any, schema_editor: Any) -> str:
    # Parameters have no length: a text that is too long is refused by its column.
    return str(field.db_type(schema_editor.connection)).partition("(")[0]


def _sql(condition: Q, model: type[Model], schema_editor: Any) -> str:
    query = Query(model=model, alias_cols=False)
    compiler = query.get_compiler(connection=schema_editor.connection)
    sql, params = query.build_where(condition).as_sql(compiler, schema_editor.connection)
    return str(sql % tuple(schema_editor.quote_value(value) for value in params))
