"""What an agent is told when it is started: where the centre is, where its files are. No secret is in here.

The supervisor checks the command line, makes `AgentSettings` and hands them to the worker through one environment
variable as JSON.
"""

from __future__ import annotations

import ipaddress
import os
import stat
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

VARIABLE = "SOUNDINGS_AGENT_SETTINGS"


class SettingsError(Exception):
    """Something the agent was told cannot be; says what and what to write."""


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """`redis_url` is as Celery writes it; the files are absolute paths."""

    centre: str
    token_file: str
    data: str
    redis_url: str
    limits_file: str | None = None
    allow_plain_http: bool = False

    @property
    def spool_file(self) -> Path:
        return Path(self.data) / "spool.sqlite3"

    @property
    def plan_file(self) -> Path:
        return Path(self.data) / "plan.json"

    @property
    def pulse_file(self) -> Path:
        """Touched by the worker every few seconds; the supervisor restarts a worker whose pulse has stopped."""
        return Path(self.data) / "pulse"

    def environment(self) -> dict[str, str]:
        return {VARIABLE: msgspec.json.encode(self).decode()}


def from_environment() -> AgentSettings:
    """The settings that the supervisor handed over."""
    try:
        return msgspec.json.decode(os.environ[VARIABLE], type=AgentSettings)
    except (KeyError, msgspec.DecodeError) as error:
        raise SettingsError(f"{VARIABLE} is not set as the agent sets it; start `python -m probes site`") from error


def check_centre(url: str, allow_plain_http: bool) -> None:
    """Raises `SettingsError` unless `url` is https, or http to this very machine."""
    parts = urlsplit(url)
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
