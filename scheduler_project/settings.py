"""Environment → Django and Celery settings. Safe by default; see docs/operations.md for every name."""

import os
from pathlib import Path

from django.templatetags.static import static

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
    "console",  # before the theme: its templates add the counters to every page
    "unfold",
    "unfold.contrib.filters",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_celery_beat",
    "jobs",
    "occurrences",
    "execution",
    "recovery",
    "beat",
    "polling",
    "scheduler_project",
    *environment.apps(os.environ),
]

MIDDLEWARE = [
    "console.probes.ProbeMiddleware",
    "django.middleware.security.SecurityMiddleware",
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
        "DIRS": [],
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
# The embedded default serves the theme's files straight from the packages, without collectstatic.
WHITENOISE_USE_FINDERS = EMBEDDED or DEBUG
if not WHITENOISE_USE_FINDERS:
    STORAGES = {
        "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
        "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
    }

# Plain HTTP is for the embedded default and for trusted networks that say so with HTTPS=off.
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
# The ledger is the truth: a message is acknowledged once its outcome is a row, and may come twice.
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
# A process need not wait for the broker between two short runs. What a busy worker took ahead, it passes on.
CELERY_WORKER_PREFETCH_MULTIPLIER = 4
CELERY_TASK_IGNORE_RESULT = True
CELERY_RESULT_EXPIRES = 3600
# A result store that is down must not hold a tick: a chord is a fast path, never the truth.
CELERY_RESULT_BACKEND_TRANSPORT_OPTIONS = {"retry_policy": {"timeout": 2.0}}
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# Events cost a worker 0.4 ms of processor time a run, a seventh of it; Flower asks for them while it runs.
CELERY_WORKER_SEND_TASK_EVENTS = environment.flag(os.environ, "TASK_EVENTS", default=False)
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 1, "interval_start": 0, "interval_max": 0.2}
CELERY_BEAT_SCHEDULER = "beat.scheduler:Scheduler"
CELERY_BEAT_SCHEDULE: dict[str, object] = {}
CELERY_BROKER_TRANSPORT_OPTIONS = (
    {
        "socket_timeout": 5,
        "socket_connect_timeout": 3,
        "visibility_timeout": environment.number(os.environ, "BROKER_VISIBILITY_TIMEOUT", default=3600),
    }
    if BROKER_URL.startswith("redis")
    # RabbitMQ answers each message: without that, "accepted" would only mean "written to a socket".
    else {"confirm_publish": True}
)
DJANGO_CELERY_BEAT_TZ_AWARE = True

# How many attempts all workers together make at once: what is due is spread over that many messages.
PUNCTUAL_WORKER_SLOTS = environment.number(os.environ, "WORKER_SLOTS", default=8)

# Platform layer of the cascade; every job and task may override it. See docs/concepts.md.
PUNCTUAL: dict[str, object] = {}

# How long workers wait for what; see docs/operations.md.
PUNCTUAL_LEASE = environment.span(os.environ, "PUNCTUAL_LEASE", default="30s")
PUNCTUAL_KILL_AFTER = environment.span(os.environ, "PUNCTUAL_KILL_AFTER", default="5s")
PUNCTUAL_CANCEL_GRACE = environment.span(os.environ, "PUNCTUAL_CANCEL_GRACE", default="10s")
PUNCTUAL_SHUTDOWN_GRACE = environment.span(os.environ, "PUNCTUAL_SHUTDOWN_GRACE", default="30s")
PUNCTUAL_LOST_AFTER = environment.span(os.environ, "PUNCTUAL_LOST_AFTER", default="30s")

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "plain": {"()": "scheduler_project.log_lines.Plain"},
        "json": {"()": "scheduler_project.log_lines.Json"},
    },
    "filters": {
        "ids": {"()": "execution.logtail.RunIds"},
        "without_secrets": {"()": "jobs.secrecy.WithoutSecrets"},
    },
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "formatter": environment.log_format(os.environ),
            "filters": ["ids", "without_secrets"],
        }
    },
    "root": {"handlers": ["console"], "level": environment.log_level(os.environ)},
    "loggers": {"celery.utils.functional": {"level": "WARNING"}},
}

# Indigo, weight by weight: calm beside the colours of states, and none of them.
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
    "STYLES": [lambda _request: static("jobs/punctual.css")],
    "SCRIPTS": [lambda _request: static("console/live.js"), lambda _request: static("jobs/choosing.js")],
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": lambda _request: static("jobs/favicon.svg")},
    ],
    "COLORS": {"primary": PRIMARY},
    "GLOBAL_CALLBACK": "console.context.everywhere",
    "DASHBOARD_CALLBACK": "console.context.dashboard",
    "SIDEBAR": {"show_all_applications": True, "navigation": "console.sidebar.navigation"},
}
