"""HTTP requests → Django, for gunicorn."""

import os

from django.core.wsgi import get_wsgi_application

# The web process serves threads and shares connections among them. Beats and worker processes have
# one thread of work each; there a pool would only hide the server's own words behind a time-out.
os.environ.setdefault("DATABASE_POOL", "on")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "scheduler_project.settings")

application = get_wsgi_application()
