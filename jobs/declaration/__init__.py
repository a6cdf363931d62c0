"""Jobs declared in code: decorators fill the registry, sync writes it to rows (JOB-3, JOB-4, JOB-10).

A declaration is checked completely when it is made; an invalid one raises DefinitionError and registers
nothing. Only functions in the registry ever run. A stored name that no code registers is `unresolved`; it
is never imported. `sync` writes all declarations or none, and any number of beats may sync at once.

- `decorators`: `Job`, `@job.task`, `@scheduled`.
- `registry`: declared jobs and registered functions, by name.
- `discovery`: import the modules in which users declare jobs.
- `sync`: write declared jobs to rows and mark jobs that are no longer declared as removed.
"""
