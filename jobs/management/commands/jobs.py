"""`manage.py jobs VERB` → the same functions the admin uses; the verbs are in `jobs.verbs`."""

from jobs.verbs import VERBS
from jobs.verbs import fleet as _fleet  # noqa: F401 - importing a verb's module connects it
from jobs.verbs import look as _look  # noqa: F401
from jobs.verbs import operate as _operate  # noqa: F401
from jobs.verbs import versions as _versions  # noqa: F401
from jobs.verbs.command import VerbCommand


class Command(VerbCommand):
    help = "Look at jobs, act on them, move whole fleets. Example: manage.py jobs trigger nightly-etl"
    verbs = VERBS
