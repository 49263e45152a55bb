"""Throughput tests that ran while their path had another trouble, which explains a low rate.

In: paths, and when their tests began. Out: masks of the tests. The trouble is shown while it lasts, and a test in it
tells nothing of the time after. The times of an incident are stored; a loss that became no incident is found in the
bursts around the test, if it is proven above the rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import cast

import numpy as np
from numpy.typing import NDArray

from monitor.alerts.detect.past.incident_times import MeasureKind
from monitor.alerts.detect.rules.loss import LossRule
from monitor.alerts.detect.suspects import PROOF_TAKES
from monitor.alerts.incidents.past_times import incident_times
from monitor.analysis import binomial
from monitor.analysis.changes.lasting import recent_losses
from monitor.analysis.changes.present import LostPackets
from monitor.archive.queries.for_alerts import newest_bursts
from monitor.mesh.document.alert_rules import settings_for
from monitor.mesh.models import Mesh
from monitor.mesh.queries import MeasuredPath

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

EVERY_TEST = 1.0
"""All tests of a path may be in incidents: they are no baseline here."""
TEST_S = 10.0
"""A trouble that begins within so many seconds after the begin of a test is in most tests too."""
AROUND_S = PROOF_TAKES.total_seconds()
"""The bursts of so long before and after a test tell its loss, as the state of the mesh told it then."""


def in_incident(paths: Mapping[int, MeasuredPath], at_s: Floats, now: datetime) -> Bools:
    """Which tests ran in an incident of their path or its reverse path, of loss, RTT, an outage or throughput, or in
    maintenance. `at_s` has a row for each path, in seconds since the epoch, NaN where there is no test."""
    since = datetime.fromtimestamp(float(np.nanmin(at_s)), UTC)
    times = incident_times(since, now, {key: path.place for key, path in paths.items()}, list(paths))
    ids, measures = np.fromiter(paths, dtype=np.int64), (MeasureKind.TESTS, MeasureKind.DELAYS)
    begin, end = (times.within(measures, ids, moment_s, EVERY_TEST) for moment_s in (at_s, at_s + TEST_S))
    return begin | end


def in_loss(mesh: Mesh, paths: Mapping[int, MeasuredPath], at_s: Floats, now: datetime) -> Bools:
    """Which tests of the last day ran while their path lost packets, proven above the rule; as `in_incident`."""
    mask = np.zeros(at_s.shape, dtype=np.bool_)
    rules = settings_for(mesh.alerts, "loss", {key: path.place for key, path in paths.items()})
    rows = {key: row for row, key in enumerate(paths) if key in rules and not np.isnan(at_s[row]).all()}
    if not rows:
        return mask
    bursts = newest_bursts(list(rows), [float(np.nanmin(at_s[row])) - AROUND_S for row in rows.values()], now)
    for path_id, row in rows.items():
        first, end = np.searchsorted(bursts["path_id"], (path_id, path_id + 1)).tolist()
        of_path = [bursts[name][first:end] for name in ("at_s", "sent", "received")]
        for place in np.flatnonzero(~np.isnan(at_s[row])).tolist():
            test_s = float(at_s[row, place])
            above_ratio = cast("LossRule", rules[path_id]).above_ratio
            mask[row, place] = any(
                float(binomial.lower_bound(loss.lost, loss.sent)) > above_ratio for loss in _losses_at(test_s, of_path)
            )
    return mask


def _losses_at(test_s: float, bursts: Sequence[Floats]) -> list[LostPackets]:
    """The losses that lasted when the test ran."""
    first, end = np.searchsorted(bursts[0], (test_s - AROUND_S, test_s + AROUND_S)).tolist()
    recent = recent_losses(*(column[first:end] for column in bursts))
    times: list[tuple[float, float | None, LostPackets]] = [
        (loss.since_s, loss.over_since_s, loss) for loss in recent.ended
    ]
    if recent.lasting is not None:
        times.append((recent.lasting.since_s, recent.lasting.clean_since_s, recent.lasting))
    return [
        loss for since_s, until_s, loss in times if since_s < test_s + TEST_S and (until_s is None or test_s < until_s)
    ]
