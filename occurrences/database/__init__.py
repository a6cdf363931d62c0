"""How the ledger talks to its database.

The ledger works on PostgreSQL and SQLite; differences change only the speed. `vendor.py` is the only module
of this room that asks which database it is.

- `arrays.py`: the lookup `id__any`, one array parameter instead of a thousand placeholders.
- `prepared_statements.py`: raw statements that PostgreSQL plans once for each connection.
- `check_constraints.py`: CHECKs with a name for each rule.
- `triggers.py`: triggers that make beats plan an edited job anew.
- `timestamps.py`: a fast loader for timestamps.
- `filled.py`: model instances without constructors.
"""
