"""Which database is it? The only vendor check of this room."""

from typing import Any


def is_postgresql(connection: Any) -> bool:
    """Arrays, row locks and pipelines are used only there; elsewhere the ORM does the same."""
    return bool(connection.vendor == "postgresql")
