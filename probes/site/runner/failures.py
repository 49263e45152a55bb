"""An exception of a measurement is its own outcome only; bugs become `tool_failure`, with a logged traceback."""

from __future__ import annotations

import logging
from typing import TypeVar

import msgspec

from probes.contract import ProbeError

logger = logging.getLogger(__name__)

# Of a detail, in which a peer may have a say.
MOST_CHARACTERS = 500

R = TypeVar("R", bound=msgspec.Struct)


def failure_of(error: Exception, measurement: str) -> ProbeError:
    """The failure for an exception, with a detail that any result can hold."""
    if isinstance(error, ProbeError):
        detail, outcome, figures = str(error), error.outcome, error.figures
    else:
        logger.error("%s: unexpected %s", measurement, type(error).__name__, exc_info=error)
        detail = f"unexpected error in the agent, please report it with its log: {type(error).__name__}: {error}"
        outcome, figures = ProbeError.outcome, {}
    printable = "".join(character if character.isprintable() else " " for character in detail)
    return ProbeError(printable[:MOST_CHARACTERS], outcome=outcome, figures=figures)


def deliverable(result: R) -> R:
    """The result as the centre will read it. Raises `msgspec.ValidationError`."""
    read: R = msgspec.msgpack.decode(msgspec.msgpack.encode(result), type=type(result))
    return read
