"""The WSGI application that gunicorn serves."""

import os

from django.core.wsgi import get_wsgi_application

# The web process has several threads that share a pool of connections. Beats and worker processes have one
# working thread each: there a pool would only replace the server's error message by a time-out.
os.environ.setdefault("DATABASE_POOL", "on")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "scheduler_project.settings")

application = get_wsgi_application()
