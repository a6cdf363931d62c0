"""Definitions in JSON and YAML files: read, check, compare with the rows, apply, export (JOB-3).

Files come from anywhere, so every step refuses what it does not understand, with one line per mistake:
place, field, value and what is allowed. Nothing is written unless the whole file is valid. Jobs that code
or a polling scheduler owns may be in a file as long as the file says the same about them; a change of them
is refused.

- `syntax`: a file to a plain document and back, with limits on size, depth and aliases.
- `entries`: a document to definitions, or all its mistakes.
- `rollout`: compare definitions with the rows, preview the change, carry it out.
- `export`: write the rows as a document.
"""
