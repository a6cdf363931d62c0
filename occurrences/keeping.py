"""Old occurrences → kept until the transaction ends, for whoever is about to make rows that refer to them.

Whoever deletes occurrences locks them first and then looks for what refers to them (`recovery.erasing`), so a
row is either there when it is referred to, and stays until its new ones can be seen, or it is gone. Both lock
in the order of ids, so that nobody waits in a circle.
"""

from collections.abc import Collection
from uuid import UUID

from django.db import connection

from occurrences.arrays import literal
from occurrences.models import Occurrence

# What the foreign key itself asks for, only before the insert and not at the commit: it stops deleting and
# nothing else. Django has no word for it.
KEEP = "SELECT id FROM occurrences_occurrence WHERE id = ANY(%s::uuid[]) ORDER BY id FOR KEY SHARE"


def kept(ids: Collection[UUID]) -> set[UUID]:
    """Those of them that are there. Call in a transaction; waits for whoever deletes some of them."""
    if connection.vendor != "postgresql":  # one writer at a time: nobody deletes meanwhile
        return set(Occurrence.objects.filter(id__any=ids).values_list("id", flat=True))
    with connection.cursor() as cursor:
        cursor.execute(KEEP, [literal(ids)])
        return {id_ for (id_,) in cursor.fetchall()}
