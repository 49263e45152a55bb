"""The centre's environment variables; a secret can come from a file, `NAME_FILE`."""

from __future__ import annotations

import ipaddress
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from probes.data_folder import default_data

VARIABLES = {
    "SOUNDINGS_DATABASE_URL": (
        "PostgreSQL to use, as postgresql://user:password@host:port/name; default the one that `manage.py up` runs. "
        "A primary and its standby: postgresql://user:password@host,host/name?target_session_attrs=read-write"
    ),
    "SOUNDINGS_READ_DATABASE_URL": (
        "a standby of PostgreSQL that pages and weekly reports read, as postgresql://user:password@host:port/name; "
        "default none"
    ),
    "SOUNDINGS_ACKNOWLEDGE": (
        "when a delivery is acknowledged: primary, once PostgreSQL has stored it, or standby, once a standby has it "
        "too; default primary"
    ),
    "SOUNDINGS_REDIS_URL": (
        "Redis of the centre, as redis://host:port/0, redis+socket:///path, or by its Sentinels as "
        "sentinel://:password@host:26379,host:26379/0?master=NAME"
    ),
    "SOUNDINGS_SECRET_KEY": "Django's secret key; `manage.py up` creates it in the data folder",
    "SOUNDINGS_DATA": (
        "folder for everything that is written; default `data` beside manage.py, for an installed program "
        "/var/lib/soundings if root runs it, else ~/.local/share/soundings"
    ),
    "SOUNDINGS_ALLOWED_HOSTS": (
        "host names under which the pages are served, separated by commas; the names of loopback always are"
    ),
    "SOUNDINGS_PUBLIC_READ": "1 opens the pages without a login",
    "SOUNDINGS_PUBLIC_STATUS": (
        "1 opens the status page, /status/, without a login: sites, uptime, incidents, maintenance; default 0"
    ),
    "SOUNDINGS_LOCAL_READ": (
        "1 opens the pages without a login to whoever works on this machine itself; `manage.py up` sets it"
    ),
    "SOUNDINGS_ALLOW_PLAIN_HTTP": (
        "1 takes requests that came over a network without TLS, tokens and all; only on a network of your own"
    ),
    "SOUNDINGS_TRUSTED_PROXIES": (
        "addresses and networks of proxies, separated by commas, whose X-Forwarded-For and X-Forwarded-Proto are "
        "believed, as 127.0.0.1,::1; default none"
    ),
    "SOUNDINGS_OIDC_ISSUER": (
        "issuer of the provider of single sign-on by OpenID Connect, as https://sso.example.org/realms/lab; "
        "without it only accounts made here log in"
    ),
    "SOUNDINGS_OIDC_CLIENT_ID": "the client that Soundings is registered as at the provider",
    "SOUNDINGS_OIDC_CLIENT_SECRET": "its secret, better in a file of mode 600, SOUNDINGS_OIDC_CLIENT_SECRET_FILE",
    "SOUNDINGS_OIDC_LABEL": "text of the button on the login page; default Log in with single sign-on",
    "SOUNDINGS_OIDC_SCOPES": "scopes to ask for, separated by spaces; default openid profile",
    "SOUNDINGS_OIDC_USER_CLAIM": "claim with the name of a new account; default preferred_username",
    "SOUNDINGS_OIDC_GROUPS_CLAIM": "claim with the user's groups; default groups",
    "SOUNDINGS_OIDC_ROLES": (
        "roles of the provider's groups, as GROUP=operator or GROUP=viewer:NAME,NAME, which limits the group to "
        "groups of the mesh; separated by spaces or lines"
    ),
    "SOUNDINGS_OIDC_DEFAULT_ROLE": "role of users without such a group: none or viewer; default none",
    "SOUNDINGS_OIDC_SESSION_HOURS": (
        "hours after which a user of single sign-on logs in again, and gets the role of the groups then; default 8"
    ),
    "SOUNDINGS_LOG_ALL": "1 logs each task of the worker and each request; by default only errors and refusals",
    "SOUNDINGS_PULSE_FILE": "file that the worker or beat touches while it runs; `manage.py up` sets it",
    "SOUNDINGS_LAB_DIR": (
        "run folder of the lab, whose paths can then be broken on the page /lab/; `manage.py up --lab` sets it"
    ),
    "SOUNDINGS_DEBUG": "1 shows Django's debug pages; never on a machine reachable by others",
    "SOUNDINGS_NOTIFY_URLS": (
        "channels that incidents are sent to, as name=URL, separated by spaces or lines; default log://. The URLs hold "
        "passwords: better in a file of mode 600, SOUNDINGS_NOTIFY_URLS_FILE"
    ),
    "SOUNDINGS_SMTP_URL": (
        "server that mails reports: smtp://host:25, smtp+tls://user:password@host:587 (STARTTLS) or smtps://host:465; "
        "default smtp://localhost:25"
    ),
    "SOUNDINGS_MAIL_FROM": "sender of mailed reports; default soundings@localhost",
    "SOUNDINGS_PUBLIC_URL": (
        "URL of the pages in mails, notifications and tickets, and by which sites enrol, as https://host; default "
        "where `manage.py up` serves them, such as http://127.0.0.1:8000"
    ),
    "SOUNDINGS_GRAFANA_URL": "URL of Grafana, as https://host; if set, pages link to its dashboards",
    "SOUNDINGS_REVERSE_NAMES": (
        "addresses on routes whose names the centre asks its resolver for: public, all (private addresses too) or off; "
        "default public"
    ),
    "SOUNDINGS_OTHER_CENTRES": (
        "other centres that the page /centres/ shows, as name=https://TOKEN@host with the token of a user there, "
        "separated by spaces or lines; default none. Tokens: better in a file of mode 600, SOUNDINGS_OTHER_CENTRES_FILE"
    ),
    "SOUNDINGS_COLD_BURSTS": (
        "folder, or s3://bucket/folder, into which old raw bursts are moved as Parquet files; default: they stay in "
        "the database"
    ),
    "SOUNDINGS_COLD_BURSTS_DAYS": "days that raw bursts stay in the database before they move to files; default 60",
    "SOUNDINGS_RETENTION_BURSTS_DAYS": "days that raw bursts are kept, 0 is forever; default 730 (rollups stay)",
    "SOUNDINGS_RETENTION_THROUGHPUT_DAYS": "days that throughput tests are kept; default 3650",
    "SOUNDINGS_RETENTION_CAPTURES_DAYS": "days that packet headers of throughput tests are kept; default 30",
    "SOUNDINGS_RETENTION_CAPACITY_DAYS": "days that capacity results are kept; default 3650",
    "SOUNDINGS_RETENTION_INTERFACES_DAYS": (
        "days that readings of interfaces are kept; default 92 (weekly summaries stay)"
    ),
    "SOUNDINGS_RETENTION_DIRECTIONS_DAYS": "days that loss and delay by direction are kept raw; default 730",
    "SOUNDINGS_RETENTION_TRACES_DAYS": "days that traces with their RTTs are kept; default 365",
    "SOUNDINGS_RETENTION_ROUTES_DAYS": "days that the routes of paths are kept; default 1826",
    "SOUNDINGS_RETENTION_DELIVERIES_DAYS": "days that records of deliveries are kept; default 30",
    "SOUNDINGS_RETENTION_REFUSED_DAYS": "days that refused results are kept, at most 10,000 per site; default 90",
    "SOUNDINGS_RETENTION_ON_DEMAND_PINGS_DAYS": "days that on-demand pings are kept; default 7",
    "SOUNDINGS_RETENTION_REVERSE_NAMES_DAYS": (
        "days that reverse names are kept after their address was last on a route; default 90"
    ),
    "SOUNDINGS_RETENTION_SLOTS_DAYS": "days that throughput slots are kept, rounded up to whole years; default 730",
    "SOUNDINGS_RETENTION_LEDGER_DAYS": "days that the ledger of planned measurements is kept; default 1826",
    "SOUNDINGS_RETENTION_INCIDENTS_DAYS": "days that incidents and silences are kept after their end; default 1826",
    "SOUNDINGS_RETENTION_DEEDS_DAYS": "days that audit records are kept; default 3650",
    "SOUNDINGS_RETENTION_ACCESS_DAYS": "days that revoked tokens and used codes are kept; default 365",
    "SOUNDINGS_RETENTION_REPORTS_DAYS": "days that records of sent reports are kept, at least 60; default 730",
}

LONGEST_DAYS = 36_500
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")


def read(name: str, default: str = "") -> str:
    """Read `name`, else the file at `name`_FILE, else `default`."""
    if name not in VARIABLES:
        raise KeyError(name)
    path = os.environ.get(f"{name}_FILE")
    if path:
        try:
            return Path(path).read_text().strip()
        except OSError as error:
            raise ImproperlyConfigured(
                f"{name}_FILE={path}: {error.strerror}; point it at a readable file or unset it"
            ) from error
    return os.environ.get(name, default)


def file_open_to_others(name: str) -> Path | None:
    """File at `name`_FILE, if other users may read or write it."""
    path = Path(os.environ.get(f"{name}_FILE") or "/nonexistent")
    return path if path.is_file() and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO) else None


def data_folder() -> Path:
    """Folder SOUNDINGS_DATA, or `probes.data_folder.default_data`."""
    return Path(read("SOUNDINGS_DATA", str(default_data()))).resolve()


def folder(name: str) -> Path | None:
    value = read(name)
    return Path(value) if value else None


def words(name: str, default: str) -> list[str]:
    """Split at spaces and lines, without lines beginning with #."""
    lines = (line for line in read(name, default).splitlines() if not line.lstrip().startswith("#"))
    return " ".join(lines).split()


def flag(name: str) -> bool:
    """Parse 1 or 0; anything else is an error."""
    value = read(name, "0")
    if value not in ("0", "1"):
        raise ImproperlyConfigured(f"{name}={value!r}: write 1 or 0")
    return value == "1"


def allowed_hosts() -> list[str]:
    """Hosts of SOUNDINGS_ALLOWED_HOSTS, and loopback for health checks and the local agent."""
    names = [name.strip() for name in read("SOUNDINGS_ALLOWED_HOSTS", ",".join(LOOPBACK_HOSTS)).split(",")]
    # Browsers and agents send an IPv6 address in brackets.
    given = [f"[{name}]" if name.count(":") > 1 and not name.startswith("[") else name for name in names if name]
    return [*given, *(name for name in LOOPBACK_HOSTS if name not in given)] if given else []


def is_loopback(url: str) -> bool:
    return (urlsplit(url).hostname or "") in {name.strip("[]") for name in LOOPBACK_HOSTS}


def trusted_proxies() -> list[str]:
    name = "SOUNDINGS_TRUSTED_PROXIES"
    proxies = [entry.strip() for entry in read(name).split(",") if entry.strip()]
    for proxy in proxies:
        try:
            ipaddress.ip_network(proxy)
        except ValueError as error:
            raise ImproperlyConfigured(f"{name}: {error}; write for example 192.0.2.7,10.1.0.0/16") from error
    return proxies


def days(name: str, default: int) -> int:
    """Read a number of days; 0 means for ever."""
    value = read(name, str(default))
    if not (value.isdecimal() and value.isascii() and int(value) <= LONGEST_DAYS):
        raise ImproperlyConfigured(f"{name}={value!r}: write whole days, 0 to {LONGEST_DAYS}; 0 keeps for ever")
    return int(value)


def choice(name: str, choices: Sequence[str]) -> str:
    """Read a choice; the first is the default."""
    value = read(name, choices[0])
    if value not in choices:
        raise ImproperlyConfigured(f"{name}={value!r}: write {', '.join(choices[:-1])} or {choices[-1]}")
    return value


def web_address(name: str) -> str | None:
    """An http or https address without trailing slash."""
    value = read(name).rstrip("/")
    if not value:
        return None
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ImproperlyConfigured(f"{name}={value!r}: write https://host, with the path that it is served under")
    return value


@dataclass(frozen=True, slots=True)
class MailServer:
    host: str
    port: int
    user: str = ""
    password: str = ""
    is_tls: bool = False  # TLS from the start
    starts_tls: bool = False  # TLS from STARTTLS on


MAIL_PORTS = {"smtp": 25, "smtp+tls": 587, "smtps": 465}


def mail_server(name: str) -> MailServer:
    """Parse smtp://host:25, smtp+tls://user:password@host:587 or smtps://host:465."""
    value = read(name, "smtp://localhost:25")
    parts = urlsplit(value)
    try:
        port = parts.port
    except ValueError:
        port = 0
    if parts.scheme not in MAIL_PORTS or not parts.hostname or port == 0 or parts.path.strip("/"):
        raise ImproperlyConfigured(
            f"{name}: write smtp://host:25, smtp+tls://user:password@host:587 or smtps://host:465, with special "
            "characters of the password percent-encoded"
        )
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if not (user + password).isascii():
        raise ImproperlyConfigured(
            f"{name}: user and password must be ASCII, since Python's SMTP library sends nothing else"
        )
    return MailServer(
        host=parts.hostname,
        port=port or MAIL_PORTS[parts.scheme],
        user=user,
        password=password,
        is_tls=parts.scheme == "smtps",
        starts_tls=parts.scheme == "smtp+tls",
    )
