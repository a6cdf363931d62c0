"""Check that the ledger holds exactly the occurrences the schedules demanded (OCC-5).

`verify` computes the expected instants of a job from its version history and the pure schedules, never from
the ledger, and compares them with the ledger's rows. It reads only; every difference is returned.

- `segments`: which schedule was in force when, and the instants it demanded. Pure.
- `coverage`: compare expected instants with rows, in one pass over both. Pure.
- `dispositions`: which rows say something that the pauses, reasons or runs contradict?
- `verify`: read a job's versions and rows, and compare.
"""
