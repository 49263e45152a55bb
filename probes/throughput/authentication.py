"""iperf3's own authentication, from one secret that both ends of a slot got with their plans.

In: the secret. Out: `Credentials`, the options and the environment for iperf3 while the context is open. Both ends make
the same RSA key pair of the secret, so that no key has to be sent: the client encrypts a password with the public half,
the server reads it with the private one. A build of iperf3 without OpenSSL cannot do this; it then gets no credentials.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from probes.throughput.rsa import key_pair

USER = "soundings"
PASSWORD_VARIABLE = "IPERF3_PASSWORD"
CLOCKS_APART_S = 60
"""iperf3 encrypts the time too, and by itself lets clocks be 10 s apart."""
CLOCKS_TOLD = (3, 10)
"""Before this version it cannot be told how far they may be apart."""
PADDING_CHANGED = (3, 17)
"""From this version on iperf3 pads otherwise, but can be told to do as the ones before."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What iperf3 is given besides its other arguments."""

    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def of_client(secret: str | None) -> Iterator[Credentials]:
    """For the end that connects."""
    if secret is None or not is_built_in():
        yield Credentials()
        return
    with tempfile.TemporaryDirectory(prefix="iperf3-") as folder:
        key = Path(folder, "public.pem")
        key.write_text(key_pair(secret).public_pem())
        arguments = ("--username", USER, "--rsa-public-key-path", str(key), *_padding())
        yield Credentials(arguments, {PASSWORD_VARIABLE: _password(secret)})


@contextmanager
def of_server(secret: str | None) -> Iterator[Credentials]:
    """For the end that listens."""
    if secret is None or not is_built_in():
        yield Credentials()
        return
    with tempfile.TemporaryDirectory(prefix="iperf3-") as folder:
        key, users = Path(folder, "private.pem"), Path(folder, "users.csv")
        key.write_text(key_pair(secret).private_pem())
        hashed = hashlib.sha256(f"{{{USER}}}{_password(secret)}".encode()).hexdigest()
        users.write_text(f"{USER},{hashed}\n")
        files = ("--rsa-private-key-path", str(key), "--authorized-users-path", str(users))
        yield Credentials((*files, *_clocks_apart(), *_padding()))


def is_built_in() -> bool:
    """Whether the iperf3 of this host can authenticate."""
    return "authentication" in _version_text()


def _password(secret: str) -> str:
    return hashlib.sha256(f"password:{secret}".encode()).hexdigest()


def _padding() -> tuple[str, ...]:
    return ("--use-pkcs1-padding",) if _version() >= PADDING_CHANGED else ()


def _clocks_apart() -> tuple[str, ...]:
    return ("--time-skew-threshold", str(CLOCKS_APART_S)) if _version() >= CLOCKS_TOLD else ()


def _version() -> tuple[int, int]:
    found = re.search(r"iperf (\d+)\.(\d+)", _version_text())
    return (int(found[1]), int(found[2])) if found else (0, 0)


@cache
def _version_text() -> str:
    """What iperf3 says of itself; nothing where it is missing."""
    try:
        done = subprocess.run(["iperf3", "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
