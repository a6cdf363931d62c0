"""Pages of what was due and what became of it. Read-only, except for the size of a pool.

- `occurrence_pages`, `run_pages`, `attempt_pages`: lists and pages of the three levels, linked up and down;
  columns of a list are in `list_display`. `ledger_pages` is their base, `filters` holds their filters.
- `gantt`: chart of an occurrence. `state_explanation`: why an occurrence is what it is.
- `pool_pages`, `audit_pages`: slots and who holds them; who requested what.
- `dead_letter_pages`: dead letters grouped by error; `dead_letter_query` reads and writes their filter.

Lists stay fast with millions of rows: no count, no sorting without an index, large columns deferred.
"""
