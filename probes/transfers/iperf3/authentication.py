"""iperf3's RSA authentication, with a key pair that both ends derive from their plans' secret.

iperf3 without OpenSSL, or versions without `common_padding`, get no credentials.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from probes.transfers.iperf3.rsa import KeyPair, key_pair

USER = "soundings"
PASSWORD_VARIABLE = "IPERF3_PASSWORD"
# iperf3 encrypts the time as well; by default it accepts a clock difference of 10 s.
CLOCK_TOLERANCE_S = 60
# The first version with an option for the accepted clock difference.
CLOCK_OPTION_SINCE = (3, 10)
# The first version with a thread for each stream.
THREADS_SINCE = (3, 16)
# The first version that pads with OAEP by default; an option selects the older PKCS #1 padding.
OAEP_SINCE = (3, 17)
# From this version on only servers have that option (https://github.com/esnet/iperf/pull/1894).
CLIENT_OAEP_ONLY_SINCE = (3, 20)

# More than an agent's peers in an hour: tests with a peer share their key for that long.
CACHED_KEYS = 1024

_deriving = threading.Lock()

Version = tuple[int, int]


class Padding(StrEnum):
    """Padding of the password before encryption (RFC 8017, sections 7.2 and 7.1)."""

    PKCS1 = "pkcs1"
    OAEP = "oaep"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Arguments and environment variables that authenticate iperf3."""

    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def client_credentials(secret: str | None, server: str | None) -> Iterator[Credentials]:
    """The client's credentials; `server` is the peer's iperf3 version, if known."""
    own = _own_version()
    padding = common_padding(own, _version(server))
    if secret is None or padding is None or not is_supported():
        yield Credentials()
        return
    with tempfile.TemporaryDirectory(prefix="iperf3-") as folder:
        key = Path(folder, "public.pem")
        key.write_text(_key_pair(secret).public_pem())
        arguments = ("--username", USER, "--rsa-public-key-path", str(key), *_padding_arguments(padding, own))
        yield Credentials(arguments, {PASSWORD_VARIABLE: _password(secret)})


@contextmanager
def server_credentials(secret: str | None, client: str | None) -> Iterator[Credentials]:
    """The server's credentials; `client` is the peer's iperf3 version, if known."""
    own = _own_version()
    padding = common_padding(_version(client), own)
    if secret is None or padding is None or not is_supported():
        yield Credentials()
        return
    with tempfile.TemporaryDirectory(prefix="iperf3-") as folder:
        key, users = Path(folder, "private.pem"), Path(folder, "users.csv")
        key.write_text(_key_pair(secret).private_pem())
        hashed = hashlib.sha256(f"{{{USER}}}{_password(secret)}".encode()).hexdigest()
        users.write_text(f"{USER},{hashed}\n")
        files = ("--rsa-private-key-path", str(key), "--authorized-users-path", str(users))
        yield Credentials((*files, *_clock_arguments(own), *_padding_arguments(padding, own)))


def common_padding(client: Version | None, server: Version | None) -> Padding | None:
    """The padding of both versions, preferably the older, or None.

    An unknown version counts as supporting both.
    """
    accepted = _paddings_of_server(server)
    return next((padding for padding in _paddings_of_client(client) if padding in accepted), None)


def prepare_keys(secret: str | None) -> None:
    """Derive keys before a test: this takes tenths of a second to seconds."""
    if secret is not None and is_supported():
        _key_pair(secret)


def missing_reason(server: str | None) -> str:
    if not is_supported():
        return "is built without authentication"
    return f"has no password padding in common with the peer's iperf3 {server}; update the older version"


def is_supported() -> bool:
    return "authentication" in _version_text()


def version() -> str | None:
    """This host's version, such as `3.12`, or None."""
    own = _own_version()
    return None if own is None else f"{own[0]}.{own[1]}"


def has_thread_per_stream(tool: str | None) -> bool | None:
    """Whether each stream has a thread; None if unknown."""
    match = re.search(r"(\d+\.\d+)", tool or "")
    parsed = _version(match[1]) if match else None
    return None if parsed is None else parsed >= THREADS_SINCE


def _key_pair(secret: str) -> KeyPair:
    # One at a time: two at once take as long, and a test would derive its keys again that are being prepared.
    with _deriving:
        return _cached_key_pair(secret)


@lru_cache(maxsize=CACHED_KEYS)
def _cached_key_pair(secret: str) -> KeyPair:
    return key_pair(secret)


def _password(secret: str) -> str:
    return hashlib.sha256(f"password:{secret}".encode()).hexdigest()


def _paddings_of_client(client: Version | None) -> tuple[Padding, ...]:
    if client is not None and client >= CLIENT_OAEP_ONLY_SINCE:
        return (Padding.OAEP,)
    return _paddings_of_server(client)


def _paddings_of_server(server: Version | None) -> tuple[Padding, ...]:
    return (Padding.PKCS1,) if server is not None and server < OAEP_SINCE else tuple(Padding)


def _padding_arguments(padding: Padding, own: Version | None) -> tuple[str, ...]:
    is_needed = padding is Padding.PKCS1 and own is not None and own >= OAEP_SINCE
    return ("--use-pkcs1-padding",) if is_needed else ()


def _clock_arguments(own: Version | None) -> tuple[str, ...]:
    has_option = own is not None and own >= CLOCK_OPTION_SINCE
    return ("--time-skew-threshold", str(CLOCK_TOLERANCE_S)) if has_option else ()


def _own_version() -> Version | None:
    match = re.search(r"iperf (\d+\.\d+)", _version_text())
    return _version(match[1] if match else None)


def _version(text: str | None) -> Version | None:
    match = re.fullmatch(r"(\d{1,9})\.(\d{1,9})", text or "")
    return (int(match[1]), int(match[2])) if match else None


def _version_text() -> str:
    program = shutil.which("iperf3")
    try:
        return "" if program is None else _run_version(program, Path(program).stat().st_mtime_ns)
    except (OSError, subprocess.TimeoutExpired):
        return ""


@lru_cache(maxsize=1)
def _run_version(program: str, modified_ns: int) -> str:
    """Run `iperf3 --version`, cached until the program changes, except timeouts."""
    return subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
