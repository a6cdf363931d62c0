"""The database's clock → an aware UTC instant. Doors read it once and pass `now` on (TSK-8)."""

from datetime import UTC, datetime

from django.db import connection

SQL = {
    # clock_timestamp, not now(): a long transaction must not freeze time.
    "postgresql": "SELECT clock_timestamp()",
    "sqlite": "SELECT strftime('%Y-%m-%d %H:%M:%f', 'now')",
}


def database_now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute(SQL[connection.vendor])
        value: datetime | str = cursor.fetchone()[0]
    if isinstance(value, str):
        return datetime.fromisoformat(value).replace(tzinfo=UTC)
    return value.astimezone(UTC)
