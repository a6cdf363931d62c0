"""Settings of jobs: how they are read, and how layers of overrides combine (JOB-2).

Most specific wins, unset inherits: defaults, then the platform (`PUNCTUAL`), the job, the task,
and one occurrence. Only overrides are stored, as JSON. `keys.normalize` is the only way in, so a stored
override has been checked once; rows can also be edited by raw SQL, so readers check again and raise
DefinitionError.

- `keys`: which settings exist, how each is read from Python or JSON and written as JSON.
- `choices`: the enums that settings take.
- `cascade`: `Config`, the defaults, and the effective configuration of a job, a task or an occurrence.
- `rate`: rates such as `10/m`.
- `retry`: the retry policy and its formula.
- `bounded_duration`: durations within the bounds that settings allow.

To add a setting: a field of `cascade.Config` (its default), an entry in `keys.KEYS`, and an option in
`declaration.decorators` for the type checker.
"""
