"""What is a job? Definitions, their settings and versions; declared in code, in files, or in the console.

Invariants:

- The name of a job decides its id, on every machine. A job is not deleted but marked as removed, and keeps
  its history.
- Every definition passes the same checks (`definition`), whatever its source. An invalid one raises
  DefinitionError with field, value and reason, and nothing is written.
- Every change of a definition is one version row, written in the transaction of the change (`store`).
- Only functions that code registers ever run (`declaration`); a stored name is never imported.
- `jobs` does not import `occurrences`. What it needs of the ledger is the protocol in `ledger_interface`.

On failure: a write that loses a race raises StaleVersionError and writes nothing; a call by name without a
database raises DatabaseAwayError; a process that cannot import a user's module does not start.

Where to look:

- `declaration/`: `Job` and `@scheduled`, the registry, discovery of users' modules, sync to rows.
- `definition/`: a definition as a value, its checks, and the difference between two.
- `config/`: the settings, their defaults, the cascade, the retry formula.
- `store/`: the rows of jobs, tasks and versions, and the policy for occurrences that are already planned.
- `files/`: definitions in JSON and YAML: apply, export.
- `models`: the tables. `ids`: the formulas of ids. `errors`: the tree of errors.
- `control`: trigger, pause, resume, start, stop and query a job by name.
- `json_values`: what a JSON column cannot store.
- `context`: what a task receives. `events`: the catalogue of log events. `redaction`: secrets in texts.
- `job_schedule`: a job's schedule and its next fires. `condition`: active, paused, disabled, unresolved,
  removed. `clock`: the database's time.
- `database`: what each database needs from us; raw SQL of this room. `check_constraints`: CHECKs with a name
  for each rule.
"""
