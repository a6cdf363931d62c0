"""Lock parent occurrences (FOR KEY SHARE) until the transaction ends, so that pruning cannot delete them.

Pruning locks occurrences before it looks for rows that refer to them (`punctual.recovery.pruning`). So a
parent either exists when a new row refers to it, and stays until that row is visible, or it is gone. Both
lock in the order of ids, to avoid a deadlock.
"""

from collections.abc import Collection
from uuid import UUID

from django.db import connection

from punctual.occurrences.database.arrays import array_literal
from punctual.occurrences.database.vendor import is_postgresql
from punctual.occurrences.models import Occurrence

# The lock that the foreign key takes at the commit, taken before the insert: it conflicts with deleting only.
# Django's ORM cannot request it.
LOCK = "SELECT id FROM punctual_occurrence WHERE id = ANY(%s::uuid[]) ORDER BY id FOR KEY SHARE"


def lock_parents(ids: Collection[UUID]) -> set[UUID]:
    """Lock these occurrences and return those that exist. Call in a transaction; waits for deletions."""
    if not is_postgresql(connection):  # one writer at a time: no other process can delete now
        return set(Occurrence.objects.filter(id__any=ids).values_list("id", flat=True))
    with connection.cursor() as cursor:
        cursor.execute(LOCK, [array_literal(ids)])
        return {id_ for (id_,) in cursor.fetchall()}
