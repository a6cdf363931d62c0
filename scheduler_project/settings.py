"""Settings of Django and Celery, from environment variables; docs/operations.md lists every variable."""

import os
from pathlib import Path

from django.templatetags.static import static

from punctual.conf import Settings as PunctualSettings
from scheduler_project import environment

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = Path(os.environ.get("PUNCTUAL_VAR", BASE_DIR / "var")).absolute()

EMBEDDED = not os.environ.get("DATABASE_URL")
DEBUG = environment.flag(os.environ, "DEBUG", default=False)
SECRET_KEY = environment.secret_key(os.environ, VAR_DIR, embedded=EMBEDDED or DEBUG)
ALLOWED_HOSTS = environment.words(
    os.environ, "ALLOWED_HOSTS", default="localhost,127.0.0.1,[::1]" if EMBEDDED else ""
)
CSRF_TRUSTED_ORIGINS = environment.words(os.environ, "CSRF_TRUSTED_ORIGINS")

DATABASES = {"default": environment.database(os.environ, VAR_DIR)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "punctual.console",
    "unfold",
    "unfold.contrib.filters",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_celery_beat",
    "punctual",
    "scheduler_project",
    *environment.apps(os.environ),
]

MIDDLEWARE = [
    "punctual.console.status.probes.ProbeMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "punctual.console.middleware.ContentSecurityPolicyMiddleware",
    "punctual.console.middleware.RefuseNulMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "scheduler_project.urls"
LOGIN_REDIRECT_URL = "admin:index"
WSGI_APPLICATION = "scheduler_project.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [Path(__file__).parent / "templates"],  # makes the console the admin of this platform
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "static"
# The embedded default serves static files from the packages, without collectstatic.
WHITENOISE_USE_FINDERS = EMBEDDED or DEBUG
if not WHITENOISE_USE_FINDERS:
    STORAGES = {
        "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
        "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
    }

# Plain HTTP only for the embedded default, or on request with HTTPS=off.
HTTPS = environment.flag(os.environ, "HTTPS", default=not (EMBEDDED or DEBUG))
SECURE_SSL_REDIRECT = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS
SECURE_HSTS_PRELOAD = HTTPS
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
X_FRAME_OPTIONS = "DENY"
if environment.flag(os.environ, "BEHIND_PROXY", default=False):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

BROKER_URL = environment.broker_url(os.environ, VAR_DIR)
RESULT_URL = environment.result_url(os.environ, BROKER_URL)

CELERY_BROKER_URL = BROKER_URL
CELERY_RESULT_BACKEND = RESULT_URL
CELERY_TIMEZONE = "UTC"
CELERY_TASK_SERIALIZER = "json"
CELERY_RESULT_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
# A message is acknowledged after its outcome was written. If it is delivered again, it claims nothing.
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
# Prefetching saves the round trip between two short runs; a busy worker gives prefetched messages back.
CELERY_WORKER_PREFETCH_MULTIPLIER = 4
CELERY_TASK_IGNORE_RESULT = True
CELERY_RESULT_EXPIRES = 3600
# A result store that is down must not block a tick: chords are an optimisation, the sweeper settles without.
CELERY_RESULT_BACKEND_TRANSPORT_OPTIONS = {"retry_policy": {"timeout": 2.0}}
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# Events cost a worker 0.4 ms of processor time per run, a seventh of it; Flower enables them while it runs.
CELERY_WORKER_SEND_TASK_EVENTS = environment.flag(os.environ, "TASK_EVENTS", default=False)
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 1, "interval_start": 0, "interval_max": 0.2}
CELERY_BEAT_SCHEDULER = "punctual.beat.celery_scheduler:Scheduler"
CELERY_BEAT_SCHEDULE: dict[str, object] = {}
CELERY_BROKER_TRANSPORT_OPTIONS = environment.broker_options(os.environ, BROKER_URL)
DJANGO_CELERY_BEAT_TZ_AWARE = True

# The defaults are in punctual/conf.py. Every other key is the platform layer of the cascade, which jobs and
# tasks may override; see docs/concepts.md.
_defaults = PunctualSettings()
PUNCTUAL: dict[str, object] = {
    "prepared_statements": environment.flag(
        os.environ, "DATABASE_PREPARE", default=_defaults.prepared_statements
    ),
    "worker_slots": environment.number(os.environ, "WORKER_SLOTS", default=_defaults.worker_slots),
    "lease": environment.span(os.environ, "PUNCTUAL_LEASE", default=_defaults.lease),
    "kill_after": environment.span(os.environ, "PUNCTUAL_KILL_AFTER", default=_defaults.kill_after),
    "cancel_grace": environment.span(os.environ, "PUNCTUAL_CANCEL_GRACE", default=_defaults.cancel_grace),
    "shutdown_grace": environment.span(
        os.environ, "PUNCTUAL_SHUTDOWN_GRACE", default=_defaults.shutdown_grace
    ),
    "hook_timeout": environment.span(os.environ, "PUNCTUAL_HOOK_TIMEOUT", default=_defaults.hook_timeout),
    "lost_after": environment.span(os.environ, "PUNCTUAL_LOST_AFTER", default=_defaults.lost_after),
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "plain": {"()": "scheduler_project.log_format.Plain"},
        "json": {"()": "scheduler_project.log_format.Json"},
    },
    "filters": {
        "ids": {"()": "punctual.execution.worker.log_tail.RunIdsFilter"},
        "redaction": {"()": "punctual.jobs.redaction.RedactingFilter"},
    },
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "formatter": environment.log_format(os.environ),
            "filters": ["ids", "redaction"],
        }
    },
    "root": {"handlers": ["console"], "level": environment.log_level(os.environ)},
    "loggers": {"celery.utils.functional": {"level": "WARNING"}},
}

# Indigo, which no state uses.
PRIMARY = {
    "50": "oklch(96.2% .018 272.314)",
    "100": "oklch(93% .034 272.788)",
    "200": "oklch(87% .065 274.039)",
    "300": "oklch(78.5% .115 274.713)",
    "400": "oklch(67.3% .182 276.935)",
    "500": "oklch(62% .18 277)",
    "600": "oklch(51.1% .2 277)",
    "700": "oklch(45.7% .2 277.023)",
    "800": "oklch(39.8% .17 277.366)",
    "900": "oklch(35.9% .144 278.697)",
    "950": "oklch(25.7% .09 281.288)",
}
UNFOLD = {
    "SITE_TITLE": "Punctual",
    "SITE_HEADER": "Punctual",
    "SITE_SUBHEADER": "proves what it ran",
    "SITE_SYMBOL": "schedule",
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
    "STYLES": [lambda _request: static("punctual_console/punctual.css")],
    "SCRIPTS": [
        lambda _request: static("punctual_console/live.js"),
        lambda _request: static("punctual_console/selection.js"),
    ],
    "SITE_FAVICONS": [
        {
            "rel": "icon",
            "type": "image/svg+xml",
            "href": lambda _request: static("punctual_console/favicon.svg"),
        },
    ],
    "COLORS": {"primary": PRIMARY},
    "GLOBAL_CALLBACK": "punctual.console.site.page_context",
    "DASHBOARD_CALLBACK": "punctual.console.site.dashboard",
    "SIDEBAR": {"show_all_applications": True, "navigation": "punctual.console.site.navigation"},
}
