"""The rule for an exception of a measurement: it is the outcome of that measurement and of nothing else.

Every way that runs a probe asks `failure_of`. A `ProbeError` has its own outcome. Any other exception is a bug: the
result is a `tool_failure` that says so, and the log has the traceback, by which the agent counts its bugs
(`probes.site.journal`).
"""

from __future__ import annotations

import logging
from typing import TypeVar

import msgspec

from probes.contract import ProbeError

logger = logging.getLogger(__name__)

MOST_CHARACTERS = 500
"""Of a detail, in which a peer may have a say."""

R = TypeVar("R", bound=msgspec.Struct)


def failure_of(error: Exception, measurement: str) -> ProbeError:
    """The failure that an exception of a measurement stands for, with a detail that any result can hold."""
    if isinstance(error, ProbeError):
        detail, outcome, figures = str(error), error.outcome, error.figures
    else:
        logger.error("%s: unexpected %s", measurement, type(error).__name__, exc_info=error)
        detail = f"unexpected error in the agent, please report it with its log: {type(error).__name__}: {error}"
        outcome, figures = ProbeError.outcome, {}
    printable = "".join(character if character.isprintable() else " " for character in detail)
    return ProbeError(printable[:MOST_CHARACTERS], outcome=outcome, figures=figures)


def deliverable(result: R) -> R:
    """The result as the centre will read it. Raises `msgspec.ValidationError` where it would refuse it."""
    read: R = msgspec.msgpack.decode(msgspec.msgpack.encode(result), type=type(result))
    return read
