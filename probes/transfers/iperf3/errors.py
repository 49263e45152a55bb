"""Outcomes of iperf3's error messages, with the words of glibc, musl and the BSDs: iperf3 appends strerror(3) to its
own text (iperf_error.c), in the locale C (`probes.transfers.iperf3.process`)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from probes.contract import NameNotResolved, NoRoute, NotPermitted, Outcome, ProbeError

ERROR_OUTCOMES = (
    ("server is busy", Outcome.BUSY),
    # 3.9 says the second, whatever the reason, if it has no connection.
    ("connection refused|unable to send control message: bad file descriptor", Outcome.REFUSED),
    (
        "unable to connect to server.*(connection timed out|operation timed out|operation (now )?in progress)",
        Outcome.REFUSED,
    ),
    ("network (is )?unreachable|no route to host|host (is )?unreachable|(network|host) is down", Outcome.NO_ROUTE),
    ("authorization failed|permission denied|operation not permitted", Outcome.NOT_PERMITTED),
    (
        "name or service not known|name does not resolve|name has no usable address|nodename nor servname provided"
        "|no address associated with |temporary failure in name resolution|: try again$|: unrecoverable error$",
        Outcome.DNS_FAILURE,
    ),
)


class ServerRefused(ProbeError):
    outcome = Outcome.REFUSED


class ServerBusy(ProbeError):
    outcome = Outcome.BUSY


class ToolFailure(ProbeError):
    outcome = Outcome.TOOL_FAILURE


OUTCOME_ERRORS: dict[Outcome, type[ProbeError]] = {
    Outcome.BUSY: ServerBusy,
    Outcome.REFUSED: ServerRefused,
    Outcome.NO_ROUTE: NoRoute,
    Outcome.NOT_PERMITTED: NotPermitted,
    Outcome.DNS_FAILURE: NameNotResolved,
}


def failure_of(message: str, address: str, port: int, figures: Mapping[str, Any]) -> ProbeError:
    """Convert a client's error message, with figures until then."""
    lowered = message.strip().lower()
    outcome = next((outcome for text, outcome in ERROR_OUTCOMES if re.search(text, lowered)), Outcome.TOOL_FAILURE)
    failure = OUTCOME_ERRORS.get(outcome, ToolFailure)
    return failure(f"iperf3 to {address} port {port}: {message}", figures=figures)
