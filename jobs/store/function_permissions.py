"""Refuse definitions with functions that need a permission which the author of the change does not have.

A user who may define jobs chooses among registered functions. A function that can do anything, such as
sending any Celery message, names a permission of its own. Code may use every function.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace

from punctual.jobs.declaration.registry import registry
from punctual.jobs.definition.document import Definition
from punctual.jobs.errors import DefinitionError


def named_permissions() -> set[str]:
    """The permissions that registered functions need."""
    return {function.permission for function in registry.functions.values() if function.permission}


def permission_of(function: str) -> str:
    """The permission that a function needs; empty: none."""
    known = registry.function(function)
    return known.permission if known else ""


def refused_functions(
    after: Definition, permissions: Collection[str], *, before: Definition | None = None
) -> Iterator[DefinitionError]:
    """What the author may not store; `before` is the stored definition, which anyone may start and stop."""
    if before is not None and replace(before, enabled=after.enabled) == after:
        return
    for task in after.tasks:
        permission = permission_of(task.function)
        if permission and permission not in permissions:
            reason = f"needs the permission {permission}"
            yield DefinitionError("function", task.function, reason, owner=f"{after.name}/{task.name}")
