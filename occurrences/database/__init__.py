"""How the ledger talks to its database.

The ledger works on PostgreSQL and SQLite; differences change only the speed. `punctual.jobs.database` asks
which database it is.

- `arrays.py`: the lookup `id__any`, one array parameter instead of a thousand placeholders.
"""
