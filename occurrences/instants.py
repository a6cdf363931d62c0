"""A new PostgreSQL connection → its timestamps are read the fast way: 0.7 µs a value instead of 3 µs.

psycopg's C loader cannot be used: Django replaces it with a Python one that sets another zone on each
result. Here the zone of the connection is UTC, as every instant of the ledger is, so the text
PostgreSQL sends is what `fromisoformat` takes. A tick with a thousand due reads ten thousand of them.
"""

from datetime import UTC, datetime
from typing import Any


def read_fast(connection: Any, **_kwargs: Any) -> None:
    """Receiver of connection_created."""
    if connection.vendor == "postgresql" and connection.timezone is UTC:
        connection.connection.adapters.register_loader("timestamptz", _loader())


def _loader() -> type[Any]:
    from psycopg.types.datetime import TimestamptzLoader  # noqa: PLC0415 - not there on SQLite alone

    class UtcLoader(TimestamptzLoader):
        timezone = UTC  # Django looks whether it has to replace this one too

        def load(self, data: Any) -> datetime:
            try:
                instant = datetime.fromisoformat(bytes(data).decode())
            except ValueError:  # infinity and the like: psycopg says what is wrong with it
                return super().load(data)
            return instant if instant.tzinfo is UTC else instant.astimezone(UTC)

    return UtcLoader
