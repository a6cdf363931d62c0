"""Definitions in the admin: jobs, their tasks and versions, the editor, and the buttons of a job.

- The page of a job only shows; `editor` changes it, in two steps, and writes through `jobs.store`.
- A definition has one owner: what code, a file or a polling scheduler defines is read-only here.
- Nothing changes on GET; every change asks for its permission and leaves a line in Django's log.

Links to the ledger go by address: what became of a job is shown by the packages to the right.
"""

from jobs.admin.job import JobAdmin
from jobs.admin.task import TaskAdmin
from jobs.admin.version import VersionAdmin

__all__ = ["JobAdmin", "TaskAdmin", "VersionAdmin"]
