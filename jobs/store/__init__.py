"""Write definitions to rows, with a version row for every change (JOB-5, JOB-6, JOB-10).

Everything that changes a definition goes through `definitions.store` or `definitions.remove`: sync, files,
the console, commands. A call writes all of its definitions or none.

Any number of processes may store at once. Rows are locked and written in id order to avoid a deadlock, and
new rows are inserted with conflicts ignored, so two processes that store the same definitions reach the
same rows. An editor passes the versions it has read; a newer one in the database raises StaleVersionError.
Only definition columns are written: pausing a job belongs to the operator. A batch of 1,000 jobs takes a
constant number of statements.

- `definitions`: store, restore and remove definitions.
- `function_permissions`: which functions the author of a change may not use.
- `rows`: lock, read and write the rows of jobs, tasks and versions.
- `raw_edits`: write the versions that edits by raw SQL left out.
- `update_policy`: what happens to occurrences that are already planned when a job changes.
"""
