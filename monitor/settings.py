"""Django's settings; `monitor.environment` has the configurable ones."""

from __future__ import annotations

import secrets
from pathlib import Path

import psycopg
from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured
from psycopg.conninfo import conninfo_to_dict

from monitor import environment
from monitor.accounts import oidc_settings
from monitor.centres import configured as other_centres
from monitor.redis_client import SentinelUrl
from monitor.stack import broker
from monitor.stack.postgres import local_url
from monitor.standby_reads import STANDBY

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = environment.data_folder()


def _secret_key() -> str:
    # Without a configured key it is random: sessions end with the process.
    given = environment.read("SOUNDINGS_SECRET_KEY")
    kept = DATA_DIR / "secret_key"
    if given or not kept.exists():
        return given or secrets.token_urlsafe(50)
    return kept.read_text()


def _database(variable: str, default: str = "") -> dict[str, object]:
    url = environment.read(variable, default)
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        # What libpq says of it quotes it, with the password.
        raise ImproperlyConfigured(
            f"{variable} cannot be read; write postgresql://user:password@host:port/name"
        ) from None
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.pop("dbname", "soundings"),
        "USER": parts.pop("user", ""),
        "PASSWORD": parts.pop("password", ""),
        "HOST": parts.pop("host", ""),
        "PORT": parts.pop("port", ""),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {"connect_timeout": 5, "tcp_user_timeout": 20_000, **parts},
    }


def _sentinels(redis_url: str) -> SentinelUrl | None:
    try:
        return SentinelUrl.parse(redis_url)
    except ValueError as error:
        raise ImproperlyConfigured(f"SOUNDINGS_REDIS_URL: {error}") from None


def _served_url() -> str:
    kept = DATA_DIR / "web_url"
    return kept.read_text().strip() if kept.exists() else "http://127.0.0.1:8000"


SECRET_KEY = _secret_key()
DEBUG = environment.flag("SOUNDINGS_DEBUG")
ALLOWED_HOSTS = environment.allowed_hosts()
PUBLIC_READ = environment.flag("SOUNDINGS_PUBLIC_READ")
PUBLIC_STATUS = environment.flag("SOUNDINGS_PUBLIC_STATUS")
LOCAL_READ = environment.flag("SOUNDINGS_LOCAL_READ")
ALLOW_PLAIN_HTTP = environment.flag("SOUNDINGS_ALLOW_PLAIN_HTTP")
TRUSTED_PROXIES = environment.trusted_proxies()
OIDC = oidc_settings.read()
NOTIFY_URLS = environment.words("SOUNDINGS_NOTIFY_URLS", "log://")
OTHER_CENTRES = other_centres.read(environment.words("SOUNDINGS_OTHER_CENTRES", ""), allow_plain_http=ALLOW_PLAIN_HTTP)
ACKNOWLEDGE = environment.choice("SOUNDINGS_ACKNOWLEDGE", ("primary", "standby"))
REVERSE_NAMES = environment.choice("SOUNDINGS_REVERSE_NAMES", ("public", "all", "off"))
REPORT_DIR = DATA_DIR / "reports"
LAB_DIR = environment.folder("SOUNDINGS_LAB_DIR")
SERVED_URL = _served_url()
PUBLIC_URL = environment.read("SOUNDINGS_PUBLIC_URL", SERVED_URL).rstrip("/")
GRAFANA_URL = environment.web_address("SOUNDINGS_GRAFANA_URL")
MAIL = environment.mail_server("SOUNDINGS_SMTP_URL")
EMAIL_HOST, EMAIL_PORT = MAIL.host, MAIL.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = MAIL.user, MAIL.password
EMAIL_USE_SSL, EMAIL_USE_TLS = MAIL.is_tls, MAIL.starts_tls
EMAIL_TIMEOUT = 30
DEFAULT_FROM_EMAIL = environment.read("SOUNDINGS_MAIL_FROM", "soundings@localhost")
COLD_BURSTS = environment.read("SOUNDINGS_COLD_BURSTS")
COLD_BURSTS_DAYS = environment.days("SOUNDINGS_COLD_BURSTS_DAYS", 60)
RETENTION_DAYS = {
    "bursts": environment.days("SOUNDINGS_RETENTION_BURSTS_DAYS", 730),
    "throughput": environment.days("SOUNDINGS_RETENTION_THROUGHPUT_DAYS", 3650),
    "captures": environment.days("SOUNDINGS_RETENTION_CAPTURES_DAYS", 30),
    "capacity": environment.days("SOUNDINGS_RETENTION_CAPACITY_DAYS", 3650),
    "interfaces": environment.days("SOUNDINGS_RETENTION_INTERFACES_DAYS", 92),
    "directions": environment.days("SOUNDINGS_RETENTION_DIRECTIONS_DAYS", 730),
    "traces": environment.days("SOUNDINGS_RETENTION_TRACES_DAYS", 365),
    "routes": environment.days("SOUNDINGS_RETENTION_ROUTES_DAYS", 1826),
    "deliveries": environment.days("SOUNDINGS_RETENTION_DELIVERIES_DAYS", 30),
    "refused": environment.days("SOUNDINGS_RETENTION_REFUSED_DAYS", 90),
    "on_demand_pings": environment.days("SOUNDINGS_RETENTION_ON_DEMAND_PINGS_DAYS", 7),
    "reverse_names": environment.days("SOUNDINGS_RETENTION_REVERSE_NAMES_DAYS", 90),
    "slots": environment.days("SOUNDINGS_RETENTION_SLOTS_DAYS", 730),
    "ledger": environment.days("SOUNDINGS_RETENTION_LEDGER_DAYS", 1826),
    "incidents": environment.days("SOUNDINGS_RETENTION_INCIDENTS_DAYS", 1826),
    "deeds": environment.days("SOUNDINGS_RETENTION_DEEDS_DAYS", 3650),
    "access": environment.days("SOUNDINGS_RETENTION_ACCESS_DAYS", 365),
    "reports": environment.days("SOUNDINGS_RETENTION_REPORTS_DAYS", 730),
}

INSTALLED_APPS = [
    "csp",
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "monitor.mesh",
    "monitor.archive",
    "monitor.routes",
    "monitor.present",
    "monitor.alerts",
    "monitor.reports",
    "monitor.api",
    "monitor.agents",
    "monitor.centres",
    "monitor.accounts",
    "monitor.web",
    "monitor.stack",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "monitor.web.request.policy.PermissionsPolicy",
    "monitor.web.request.agent_requests.EncryptedTransport",
    "monitor.web.request.readable.RejectUnreadable",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.middleware.gzip.GZipMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "monitor.web.bodies.limits.BodyLimits",
    "monitor.accounts.access.Access",
    "monitor.web.request.preferences.PersonalPages",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "monitor.web.request.former_names.FormerNames",
    "monitor.web.request.standby.PagesFromStandby",
]

ROOT_URLCONF = "monitor.urls"
WSGI_APPLICATION = "monitor.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "monitor" / "web"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "monitor.web.request.own_command.own_command",
                "monitor.web.request.preferences.personal",
            ],
        },
    }
]

DATABASES = {"default": _database("SOUNDINGS_DATABASE_URL", local_url(DATA_DIR / "postgres"))}
if environment.read("SOUNDINGS_READ_DATABASE_URL"):
    DATABASES[STANDBY] = _database("SOUNDINGS_READ_DATABASE_URL")
# The memory of a process is not that of the others: what they share is in PostgreSQL or Redis.
CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en-gb"
USE_I18N = False

STATIC_URL = "static/"
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "monitor.web.static_files.HashedFinder",
]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "monitor.web.static_files.HashedStaticFiles"},
}
WHITENOISE_USE_FINDERS = True
LOGIN_URL = "login"

DATA_UPLOAD_MAX_MEMORY_SIZE = 32 * 1024 * 1024
LOGIN_REDIRECT_URL = "grid"
CSRF_FAILURE_VIEW = "monitor.web.request.errors.stale_form"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = not ALLOW_PLAIN_HTTP
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SECURE_HSTS_SECONDS = 0 if ALLOW_PLAIN_HTTP else 365 * 86_400
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = not ALLOW_PLAIN_HTTP
SECURE_CONTENT_TYPE_NOSNIFF = True
# Only our own scripts run, and nothing inline. The charts keep to it too: Vega runs with its expression interpreter, so
# `unsafe-eval` is not needed.
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "connect-src": [SELF],
        # The logout's form redirects to the provider of single sign-on.
        "form-action": [SELF] if OIDC is None else [SELF, OIDC.origin],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SILENCED_SYSTEM_CHECKS = ["security.W008"]  # monitor.web.request.agent_requests redirects, and knows loopback

REDIS_URL = environment.read("SOUNDINGS_REDIS_URL", broker.local_url(DATA_DIR))
# A Redis that is gone without closing its connections is given up within seconds.
BROKER_TIMEOUTS = {"socket_connect_timeout": 2, "socket_timeout": 5, "health_check_interval": 5}
SENTINELS = _sentinels(REDIS_URL)
CELERY_BROKER_URL = REDIS_URL if SENTINELS is None else SENTINELS.broker_url
CELERY_BROKER_TRANSPORT_OPTIONS = {} if SENTINELS is None else {"master_name": SENTINELS.master, **BROKER_TIMEOUTS}
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_TASK_IGNORE_RESULT = True
CELERY_TIMEZONE = "UTC"
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False

LOG_ALL = environment.flag("SOUNDINGS_LOG_ALL")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "filters": {"refusals": {"()": "monitor.web.refusal_log.RefusalsOnALine"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["refusals"]}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {  # these tell of every step otherwise
        "apprise": {"level": "WARNING"},
        "weasyprint": {"level": "WARNING"},
        "fontTools": {"level": "WARNING"},
        # Two lines for each task, twenty tasks a minute and more; what fails is an error of celery.app.trace.
        **(
            {}
            if LOG_ALL
            else {name: {"level": "WARNING"} for name in ("celery.worker.strategy", "celery.app.trace", "celery.beat")}
        ),
    },
}
