"""The verbs of `manage.py punctual`, the only management command of the package.

A verb parses its options, reads the database's clock, calls one function of a room and returns rows. It
contains no decision of its own: what it does, the console does with the same function. The entry is
`punctual/management/commands/punctual.py`; it prints the rows as lines, or as JSON with `--json`.

Exit codes: 0 done, 1 refused or not everything was done, 2 the command line was not understood. A verb that
changes many rows takes `--dry-run`, `--reason` and `--by` and leaves an audit entry. A wrong option is
reported in one line with its value and what was expected, before anything is written.

| question | module |
|---|---|
| which verbs exist? | `catalog` |
| what is a verb, what does it return? | `verb` |
| how are instants, ids, authors read from options? | `arguments` |
| how does a verb act on many rows? | `action_runner`, `progress` |
| which examples does `--help` show? | `help_examples` |
| `jobs list show next` / `trigger pause resume start stop sync` | `job_queries` / `job_control` |
| `jobs history restore` / `export apply` / `import_beat` | `job_versions` / `job_files` / `job_import` |
| `occurrences …` / `dlq …` | `occurrence_verbs` / `dead_letter_verbs` |
| `backfill prune recover reap resend settle` | `maintenance` |
| `ledger verify` / `schedule explain` / `doctor` | `ledger_verify` / `schedule_explain` / `doctor` |
"""
