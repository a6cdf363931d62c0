"""The operator's view: every page, form, chart, admin class, template and static file.

Django app `punctual.console`, label `punctual_console`. No other room imports it, and no other room
knows HTML, forms or the admin.

- `kit/`: what all pages share: base classes of lists and pages, display of values, charts, paging.
- `definitions/`: jobs, tasks, versions, and the editor.
- `ledger/`: occurrences, runs, attempts, pools, audit entries, dead letters.
- `status/`: overview, timeline, beats and workers, health probes, metrics.
- `acting/`: what an operator can do; one view and one form for every `Action` of `punctual.operations`.
- `admin.py` registers the pages, `urls.py` the console's own paths, `site.py` holds the theme's callbacks.

Invariants
- GET changes nothing. Every change asks for its own permission and leaves an audit or log entry.
- A page costs a fixed number of queries, however many rows there are; lists page by keyset and never count.
- Everything that a job, a task or an error message may contain is escaped, and secrets are redacted.
- A state is shown by colour, shape and word together.

On failure: a row that raw SQL damaged still has a page, which says what cannot be read. A page does not wait
for a broker that is down. Probes answer within a time limit, whatever hangs.
"""
