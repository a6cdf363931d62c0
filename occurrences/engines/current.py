"""Choose the engine by the kind of the database: the one place in this room where it matters."""

from functools import cache

from django.db import connection

from punctual.jobs.database import is_postgresql
from punctual.occurrences.engines import portable, postgresql
from punctual.occurrences.engines.contract import Engine


@cache
def engine() -> Engine:
    return postgresql if is_postgresql(connection) else portable
