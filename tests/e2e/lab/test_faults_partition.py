"""The centre is unreachable: the lab disconnects all sites from it. Measuring continues, and soon after, each slot is
stored once."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from tests.e2e import faults
from tests.e2e.faults import PING_EVERY_S, SIZES, WHOLE
from tests.e2e.stack import wait_for

OUTAGE_S = 600 if WHOLE else 60
HEALED_WITHIN_S = 120
SHARE_MEASURED = 0.8
"""Minimum ratio of measured cycles during the outage; a busy machine may be late sometimes, and reports it."""


def accounted(lab, since, until):
    """The outcomes of the outage's cycles; None while any is not accounted for."""
    cycle_counts = [faults.cycles(lab, number, since, until) for number in faults.path_ids(lab).values()]
    whole = sum(cycle_counts[1:], cycle_counts[0])
    return None if any(whole[outcome] for outcome in faults.OPEN) else whole


def cycles_measured(lab, since, until):
    """The number of paths' cycles scheduled in [since, until) that were measured."""
    first, stop = (round(at.timestamp()) // PING_EVERY_S for at in (since, until))
    [[count]] = faults.rows(
        lab,
        "SELECT count(*) FROM cycle_day, generate_series(%s, %s) AS number"
        " WHERE test = 'ping' AND outcome = 'measured' AND cycles @> number::bigint",
        first,
        stop - 1,
    )
    return count


def bursts_measured(lab, since, until):
    """The number of bursts of each path and size that began in [since, until)."""
    there = faults.rows(
        lab,
        "SELECT count(*) FROM burst WHERE outcome = 'measured' AND measured_at >= %s AND measured_at < %s"
        " GROUP BY path_id, packet_bytes",
        since,
        until,
    )
    return [count for (count,) in there]


def boundary(at):
    """The scheduled start of a moment's cycle."""
    return datetime.fromtimestamp(at.timestamp() // PING_EVERY_S * PING_EVERY_S, UTC)


@pytest.mark.timeout(OUTAGE_S + 600)
def test_agents_cut_off_from_the_centre_deliver_each_slot_once(lab, capsys):
    lab.lab("set", "--centre", "down")
    cut_at = datetime.now(UTC)
    try:
        # The length of the outage is the fault itself; nothing is awaited here.
        time.sleep(OUTAGE_S)
        waiting = [faults.spool_counts(lab.spool_file(site))[1] for site in faults.SITES]
    finally:
        lab.lab("set", "--centre", "up")
    healed_at = datetime.now(UTC)
    since, until = boundary(cut_at), boundary(healed_at)
    assert all(waiting), "each agent keeps its results"

    outcomes = wait_for(lambda: accounted(lab, since, until), HEALED_WITHIN_S, "each slot is accounted for")
    took_s = (datetime.now(UTC) - healed_at).total_seconds()

    cycles = (until - since).total_seconds() / PING_EVERY_S
    assert outcomes["planned"] == cycles * len(faults.path_ids(lab))
    assert outcomes["measured"] >= SHARE_MEASURED * outcomes["planned"]
    ledger = faults.balanced(lab, 120, capsys)
    assert ledger.refused == 0
    # A late burst may begin after its cycle's time; that is one at either end for each path and size.
    there = bursts_measured(lab, since, until)
    assert max(there) <= cycles + 1
    assert sum(there) >= SIZES * cycles_measured(lab, since, until) - len(there)
    with capsys.disabled():
        print(f"cut off for {OUTAGE_S} s: {sum(waiting)} results kept; all slots there {took_s:.0f} s after healing")
