"""Register every list and page of the console with the admin site."""

from django.contrib import admin

from punctual.console.definitions.job_pages import JobAdmin
from punctual.console.definitions.task_pages import TaskAdmin
from punctual.console.definitions.version_pages import VersionAdmin
from punctual.console.ledger.attempt_pages import AttemptAdmin
from punctual.console.ledger.audit_pages import AuditAdmin
from punctual.console.ledger.occurrence_pages import OccurrenceAdmin
from punctual.console.ledger.pool_pages import PoolAdmin
from punctual.console.ledger.run_pages import TaskRunAdmin
from punctual.console.status.beat_pages import BeatAdmin
from punctual.execution.models import Process
from punctual.jobs.models import Job, JobVersion, Task
from punctual.occurrences.models import Attempt, Occurrence, Pool, TaskRun
from punctual.operations.models import Audit

admin.site.register(Job, JobAdmin)
admin.site.register(Task, TaskAdmin)
admin.site.register(JobVersion, VersionAdmin)
admin.site.register(Occurrence, OccurrenceAdmin)
admin.site.register(TaskRun, TaskRunAdmin)
admin.site.register(Attempt, AttemptAdmin)
admin.site.register(Pool, PoolAdmin)
admin.site.register(Audit, AuditAdmin)
admin.site.register(Process, BeatAdmin)
