"""Pages of what is defined: jobs, their tasks and versions, and the editor.

- `job_pages`, `task_pages`, `version_pages`: lists and pages; columns of a list are in `list_display`.
  `definition_pages` is their base, `sections` holds the tables below the fields.
- `history`, `task_grid`, `month_calendar`: how a job has been running, as charts.
- `editor`: form, then preview, then the change, written through `punctual.jobs.store`. `editor_forms` has
  the fields, `draft` turns them into a definition, `change_preview` shows what would change,
  `schedule_hint` explains a schedule while it is typed.

Invariants
- A definition has one owner: what code, a file or a polling scheduler defines is read-only here.
- An edit carries the version it was opened with. The store refuses a stale one under the row lock, and the
  editor shows what changed meanwhile beside what was typed; nothing typed is lost.
"""
