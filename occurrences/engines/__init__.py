"""Claim and ending: one contract, and one module per kind of database that fulfils it.

| question | module |
|---|---|
| what goes in and comes out? | `contract` |
| the statements for PostgreSQL, all raw SQL of this room | `postgres` |
| the same steps for SQLite, through the ORM | `portable` |

`punctual.occurrences.transitions` chooses the engine and is the only caller. Both engines take any outcome,
one run or fifty. On PostgreSQL a step is one statement, planned once for each connection and committed at
once: several statements in one transaction took half as much processor time again (decision 0008).

Invariants: a guard that matches nothing is an answer, not an error; the rows that come back say what was
written. Occurrences are locked before their runs, in the order of their ids.

On failure: a statement that fails has written nothing. The caller repeats it under the same claim token.
"""
