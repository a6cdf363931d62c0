"""How the ledger talks to its database.

The ledger works on PostgreSQL and SQLite; differences change only the speed. `punctual.jobs.database` asks
which database it is.

- `arrays.py`: the lookup `id__any`, one array parameter instead of a thousand placeholders.
- `prepared_statements.py`: raw statements that PostgreSQL plans once for each connection.
- `timestamps.py`: a fast loader for timestamps.
- `filled.py`: model instances without constructors.
"""
