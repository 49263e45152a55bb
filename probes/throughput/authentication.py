"""iperf3's own authentication, from one secret that both ends of a slot got with their plans.

In: the secret. Out: `Credentials`, the options and the environment for iperf3 while the context is open. Both ends make
the same RSA key pair of the secret, so that no key has to be sent: the client encrypts a password with the public half,
the server reads it with the private one. A build of iperf3 without OpenSSL cannot do this, nor two builds that have no
padding of what is encrypted in common (`common_padding`); they get no credentials.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from probes.throughput.rsa import KeyPair, key_pair

USER = "soundings"
PASSWORD_VARIABLE = "IPERF3_PASSWORD"
CLOCKS_APART_S = 60
"""iperf3 encrypts the time too, and by itself lets clocks be 10 s apart."""
CLOCKS_TOLD = (3, 10)
"""Before this version it cannot be told how far they may be apart."""
PADDING_CHANGED = (3, 17)
"""From this version on iperf3 pads by OAEP, but can be told to pad as the ones before."""
PADDING_OF_CLIENTS_FIXED = (3, 20)
"""From this version on only a server can be told so (https://github.com/esnet/iperf/pull/1894)."""

KEYS_KEPT = 4
"""More than an agent has tests at a time; a client that knocks again has them at once."""

Version = tuple[int, int]


class Padding(StrEnum):
    """How the password is padded before it is encrypted (RFC 8017, sections 7.2 and 7.1)."""

    PKCS1 = "pkcs1"
    OAEP = "oaep"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What iperf3 is given besides its other arguments."""

    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def of_client(secret: str | None, server: str | None) -> Iterator[Credentials]:
    """For the end that connects; `server` is the other end's version of iperf3, None where it is not known."""
    own = _own_version()
    padding = common_padding(own, _version(server))
    if secret is None or padding is None or not is_built_in():
        yield Credentials()
        return
    with tempfile.TemporaryDirectory(prefix="iperf3-") as folder:
        key = Path(folder, "public.pem")
        key.write_text(_pair(secret).public_pem())
        arguments = ("--username", USER, "--rsa-public-key-path", str(key), *_told(padding, own))
        yield Credentials(arguments, {PASSWORD_VARIABLE: _password(secret)})


@contextmanager
def of_server(secret: str | None, client: str | None) -> Iterator[Credentials]:
    """For the end that listens; `client` is as `server` above."""
    own = _own_version()
    padding = common_padding(_version(client), own)
    if secret is None or padding is None or not is_built_in():
        yield Credentials()
        return
    with tempfile.TemporaryDirectory(prefix="iperf3-") as folder:
        key, users = Path(folder, "private.pem"), Path(folder, "users.csv")
        key.write_text(_pair(secret).private_pem())
        hashed = hashlib.sha256(f"{{{USER}}}{_password(secret)}".encode()).hexdigest()
        users.write_text(f"{USER},{hashed}\n")
        files = ("--rsa-private-key-path", str(key), "--authorized-users-path", str(users))
        yield Credentials((*files, *_clocks_apart(own), *_told(padding, own)))


def common_padding(client: Version | None, server: Version | None) -> Padding | None:
    """What both ends can do, the older padding first, since an end that does not know the other tries that; None where
    there is nothing. An end whose version is None can do all."""
    of_server = _paddings_of_server(server)
    return next((padding for padding in _paddings_of_client(client) if padding in of_server), None)


def prepare(secret: str | None) -> None:
    """Make the keys ahead of a test: that takes some tenths of a second, and longer on a busy machine."""
    if secret is not None and is_built_in():
        _pair(secret)


def lack(server: str | None) -> str:
    """Why this host's iperf3 shows no key, in words."""
    if not is_built_in():
        return "is built without authentication"
    return f"pads keys in no way that the other end's, {server}, knows; update the older one"


def is_built_in() -> bool:
    """Whether the iperf3 of this host can authenticate."""
    return "authentication" in _version_text()


def version() -> str | None:
    """The version of this host's iperf3, as `3.12`; None where there is none."""
    own = _own_version()
    return None if own is None else f"{own[0]}.{own[1]}"


@lru_cache(maxsize=KEYS_KEPT)
def _pair(secret: str) -> KeyPair:
    return key_pair(secret)


def _password(secret: str) -> str:
    return hashlib.sha256(f"password:{secret}".encode()).hexdigest()


def _paddings_of_client(client: Version | None) -> tuple[Padding, ...]:
    if client is not None and client >= PADDING_OF_CLIENTS_FIXED:
        return (Padding.OAEP,)
    return _paddings_of_server(client)


def _paddings_of_server(server: Version | None) -> tuple[Padding, ...]:
    return (Padding.PKCS1,) if server is not None and server < PADDING_CHANGED else tuple(Padding)


def _told(padding: Padding, own: Version | None) -> tuple[str, ...]:
    is_told = padding is Padding.PKCS1 and own is not None and own >= PADDING_CHANGED
    return ("--use-pkcs1-padding",) if is_told else ()


def _clocks_apart(own: Version | None) -> tuple[str, ...]:
    can_be_told = own is not None and own >= CLOCKS_TOLD
    return ("--time-skew-threshold", str(CLOCKS_APART_S)) if can_be_told else ()


def _own_version() -> Version | None:
    found = re.search(r"iperf (\d+\.\d+)", _version_text())
    return _version(found[1] if found else None)


def _version(text: str | None) -> Version | None:
    """Of a text as `3.12`; None of any other."""
    found = re.fullmatch(r"(\d{1,9})\.(\d{1,9})", text or "")
    return (int(found[1]), int(found[2])) if found else None


def _version_text() -> str:
    """What iperf3 says of itself; nothing where it is missing or does not answer."""
    program = shutil.which("iperf3")
    try:
        return "" if program is None else _said_by(program, Path(program).stat().st_mtime_ns)
    except (OSError, subprocess.TimeoutExpired):
        return ""


@lru_cache(maxsize=1)
def _said_by(program: str, changed_ns: int) -> str:
    """Asked of each program that is put there until it has answered once."""
    return subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=False).stdout
