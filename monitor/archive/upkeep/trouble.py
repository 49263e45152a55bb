"""Current reasons why deliveries cannot be stored, for agents, pages and `archive status`.

Each is an empty file's modification time, which even a full disk accepts; other machines read Redis.
"""

from __future__ import annotations

import logging
import socket
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from django.conf import settings
from django.db import Error

from monitor import redis_client

# Hash in Redis: the time of each kind of trouble at each machine.
SHARED = "trouble"
EARLIEST = datetime.min.replace(tzinfo=UTC)
# A machine that is gone clears nothing.
FORGOTTEN_AFTER_S = 3600
logger = logging.getLogger(__name__)


class TroubleKind(StrEnum):
    DISK_FULL = "the disk of the database is full"
    NO_RESOURCES = "the database is out of memory or connections"
    SLOW = "the database is too slow"
    NOT_REPLICATED = "the standby of the database does not store results"
    AWAY = "the database is unavailable"


@dataclass(frozen=True, slots=True)
class DatabaseTrouble:
    """A reason why results were rejected, most recently at `at`."""

    kind: TroubleKind
    at: datetime


# Kinds by SQLSTATE, https://www.postgresql.org/docs/current/errcodes-appendix.html.
KINDS = {
    "53100": TroubleKind.DISK_FULL,
    "57014": TroubleKind.SLOW,
    "55P03": TroubleKind.SLOW,
    "40P01": TroubleKind.SLOW,
    "08007": TroubleKind.NOT_REPLICATED,
}


def kind_of(error: Error) -> TroubleKind:
    sqlstate = getattr(error.__cause__, "sqlstate", None) or ""
    return KINDS.get(sqlstate, TroubleKind.NO_RESOURCES if sqlstate.startswith("53") else TroubleKind.AWAY)


def record_trouble(kind: TroubleKind) -> None:
    file = _file(kind)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    except OSError as error:
        logger.error("trouble: cannot write %s: %s; the pages will not show that %s", file, error.strerror, kind)
    redis = redis_client.centre()
    redis.command("hset", SHARED, _shared_name(kind), datetime.now(UTC).isoformat())
    redis.command("expire", SHARED, FORGOTTEN_AFTER_S)


def clear_trouble() -> None:
    for kind in TroubleKind:
        try:
            _file(kind).unlink()
        except FileNotFoundError:
            continue  # so that a delivery, as a rule, costs Redis nothing
        redis_client.centre().command("hdel", SHARED, _shared_name(kind))


def current_trouble() -> list[DatabaseTrouble]:
    """Trouble of all machines, newest first; storing a batch ends a machine's trouble."""
    newest: dict[TroubleKind, datetime] = {}
    for name, at in (redis_client.centre().command("hgetall", SHARED) or {}).items():
        machine, _, kind_name = name.decode().rpartition("/")
        if machine != socket.gethostname() and kind_name in TroubleKind.__members__:
            kind = TroubleKind[kind_name]
            newest[kind] = max(newest.get(kind, EARLIEST), datetime.fromisoformat(at.decode()))
    for kind in TroubleKind:
        try:
            at_this_machine = datetime.fromtimestamp(_file(kind).stat().st_mtime, UTC)
        except FileNotFoundError:
            continue
        newest[kind] = max(newest.get(kind, EARLIEST), at_this_machine)
    troubles = [DatabaseTrouble(kind, at) for kind, at in newest.items()]
    return sorted(troubles, key=lambda trouble: trouble.at, reverse=True)


def _shared_name(kind: TroubleKind) -> str:
    return f"{socket.gethostname()}/{kind.name}"


def _file(kind: TroubleKind) -> Path:
    folder: Path = settings.DATA_DIR / "trouble"
    return folder / kind.name.lower()
