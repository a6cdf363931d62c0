"""Claim, ending and bulk writes: one contract, and one module per kind of database that fulfils it.

| question | module |
|---|---|
| what goes in and comes out? | `contract` |
| which engine? | `current` |
| one statement a step, for PostgreSQL | `postgresql`; the statements are in `punctual.occurrences.sql` |
| the same steps through the ORM, for SQLite | `portable` |

Both engines take any outcome, one row or a thousand. On PostgreSQL a step is one statement, planned once for
each connection and committed at once: several statements in one transaction took half as much processor time
again (decision 0008). Only `punctual.occurrences.transitions` calls the steps that write a state.

Invariants: a guard that matches nothing is an answer, not an error; the rows that come back say what was
written. Occurrences are locked before their runs, in the order of their ids.

On failure: a statement that fails has written nothing. The caller repeats it under the same claim token.
"""
