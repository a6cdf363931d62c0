"""The ledger: what was due and what became of it.

An occurrence is one instant of one job. Firing an occurrence creates one task run for each task of the job;
each try of a run is an attempt. All of them are rows, and these rows are the only truth: messages, chords
and caches may be lost.

Invariants
- The id of an occurrence follows from its job and its instant (`jobs/ids.py`), so two beats that plan the
  same instant insert one row. Losing that race is not an error.
- `transitions.py` is the only writer of a state column. Each transition is one guarded UPDATE along the
  tables in `states.py`; a guard that matches nothing means that another process was first.
- A row that did not run says why: `reason` holds a member of `Reason` (or, for canceled and parked runs,
  the words of the task or of the attempt that failed).
- Locks are taken in one order everywhere: occurrences before cursors before pools, and an occurrence before
  its runs. Lists of rows are locked and inserted in the order of their ids.
- The database refuses impossible rows: unique ids, one active occurrence per exclusive job, `row_rules.py`.

Failure: every step runs in one transaction. A process that dies in the middle leaves the rows as they were,
and the next tick of any beat repeats the step.

Which module answers which question
- `planning/`: which instants get a row, and when does each start? After downtime, an edit, a pause?
- `admission/`: which due occurrences start now, which wait, which are skipped?
- `active_states.py`: does an active occurrence run, wait for a worker, or wait for a retry?
- `operator.py`: trigger a job, skip its next occurrence, move one.
- `outbox.py`: which runs may be sent to the broker, and what do their messages say?
- `sql.py`: the raw SQL of this room, for PostgreSQL.
- `job_port.py`: the functions that `punctual.jobs` calls without importing this room.
- `querysets.py`: questions about the tables, by name; `id__any` for lists of ids.
- `engines/`: claim, ending and bulk writes, one module per kind of database.
"""
