"""Settings of an agent at its start, without secrets; handed to the worker as JSON in an environment variable."""

from __future__ import annotations

import ipaddress
import os
import stat
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from probes.private_files import replace_privately

VARIABLE = "SOUNDINGS_AGENT_SETTINGS"
# Scheme of a centre behind a Unix socket, as unix:///run/soundings/web.sock.
UNIX = "unix"
# Limits of all agents of this machine that have none of their own.
MACHINE_LIMITS = Path("/etc/soundings/limits.toml")


class SettingsError(Exception):
    """A setting is invalid; says which, and gives a valid example."""


class JoinedCentre(msgspec.Struct, frozen=True, kw_only=True):
    """The centre that a data folder's site has joined."""

    centre: str
    further_urls: tuple[str, ...] = ()
    site: str
    allow_plain_http: bool = False


class StartOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the agent's latest start."""

    centre: str
    further_urls: tuple[str, ...] = ()
    token_file: str
    limits_file: str | None = None
    allow_plain_http: bool = False


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of an agent; its files are absolute paths."""

    centre: str
    further_urls: tuple[str, ...] = ()
    token_file: str
    data: str
    identity: str | None = None  # sent to the centre
    limits_file: str | None = None
    allow_plain_http: bool = False

    @property
    def spool_file(self) -> Path:
        return spool_file(Path(self.data))

    @property
    def plan_file(self) -> Path:
        return plan_file(Path(self.data))

    @property
    def usage_file(self) -> Path:
        return usage_file(Path(self.data))

    @property
    def heartbeat_file(self) -> Path:
        """Touched by the worker every few seconds; the supervisor restarts a silent worker."""
        return Path(self.data) / "pulse"

    @property
    def state_file(self) -> Path:
        """The running agent's `probes.site.journal.WorkerState`."""
        return state_file(Path(self.data))

    def environment(self) -> dict[str, str]:
        return {VARIABLE: msgspec.json.encode(self).decode()}


def spool_file(data: Path) -> Path:
    return data / "spool.sqlite3"


def plan_file(data: Path) -> Path:
    return data / "plan.json"


def usage_file(data: Path) -> Path:
    return data / "usage.json"


def limits_file(data: Path, given: Path | None) -> Path | None:
    """The limits file of command line, data folder or machine, in this order; or None."""
    if given is not None:
        return given
    return next((file for file in (data / "limits.toml", MACHINE_LIMITS) if file.exists()), None)


def state_file(data: Path) -> Path:
    return data / "state.json"


def lock_file(data: Path) -> Path:
    """Locked by the running supervisor; contains its process id."""
    return data / "agent.lock"


def token_file(data: Path) -> Path:
    return data / "token"


def identity_file(data: Path) -> Path:
    return data / "identity.json"


def joined_file(data: Path) -> Path:
    return data / "centre.json"


def start_file(data: Path) -> Path:
    """The supervisor's `StartOptions`, for `site doctor`."""
    return data / "start.json"


def keep_start_options(settings: AgentSettings) -> None:
    """Raises OSError."""
    options = StartOptions(
        centre=settings.centre,
        further_urls=settings.further_urls,
        token_file=settings.token_file,
        limits_file=settings.limits_file,
        allow_plain_http=settings.allow_plain_http,
    )
    path = start_file(Path(settings.data))
    with replace_privately(path, path.with_suffix(".new")) as file:
        file.write(msgspec.json.encode(options))


def read_start_options(data: Path) -> StartOptions | None:
    """Options of the latest start; None if never started, damaged, or joined since."""
    try:
        options = msgspec.json.decode(start_file(data).read_bytes(), type=StartOptions)
        started_ns = start_file(data).stat().st_mtime_ns
    except (OSError, msgspec.DecodeError):
        return None
    joined = joined_file(data)
    return None if joined.exists() and joined.stat().st_mtime_ns > started_ns else options


def read_joined(data: Path) -> JoinedCentre | None:
    """The centre that the site has joined, or None. Raises `SettingsError`."""
    path = joined_file(data)
    try:
        return msgspec.json.decode(path.read_bytes(), type=JoinedCentre)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise SettingsError(f"{path}: {error}; join again, or give --centre and --token-file") from error


def from_environment() -> AgentSettings:
    try:
        return msgspec.json.decode(os.environ[VARIABLE], type=AgentSettings)
    except (KeyError, msgspec.DecodeError) as error:
        raise SettingsError(f"{VARIABLE} is not set as the agent sets it; start `python -m probes site`") from error


def split_urls(text: str) -> tuple[str, ...]:
    """The URLs of one centre, as URL[,URL…], without repetitions. Raises `SettingsError` if any is empty."""
    urls = tuple(dict.fromkeys(url.strip() for url in text.split(",")))
    if "" in urls:
        raise SettingsError(f"--centre {text}: a URL is empty; write https://HOST[:PORT],https://HOST[:PORT]")
    return urls


def check_centre(url: str, allow_plain_http: bool) -> None:
    """Raise `SettingsError` unless `url` is https, http to this very machine, or a Unix socket."""
    parts = urlsplit(url)
    if parts.scheme == UNIX:
        if parts.netloc or not parts.path.startswith("/"):
            raise SettingsError(f"--centre {url}: not an absolute path; write unix:///PATH")
        return
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(f"--centre {url}: not a web address; write https://HOST[:PORT]")
    if parts.scheme == "http" and not allow_plain_http and not _is_loopback(parts.hostname):
        raise SettingsError(
            f"--centre {url}: plain HTTP would show the token to the network; write https://, or give"
            " --allow-plain-http on a network of your own"
        )


def read_token(path: Path) -> str:
    """The token in a file. Raises `SettingsError`."""
    try:
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"--token-file {path}: {error}; write the site's token into it") from error
    if not token or not token.isascii() or any(character.isspace() for character in token):
        raise SettingsError(f"--token-file {path}: one line with the site's token is wanted")
    return token


def readable_by_others(path: Path) -> bool:
    return bool(path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH))


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
