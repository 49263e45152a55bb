"""The other paths of an incident: those with a loss that is being checked are not called normal."""

from __future__ import annotations

import pytest
from scipy.stats import beta

from monitor.alerts.detect.rules.catalogue import rule_of
from monitor.alerts.detect.rules.finding import Effect
from monitor.archive.models import Burst
from tests.db.planted_faults import Planted, at, between, look_at, plant

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("as_worker")]

RULES = {"loss": {"above_ratio": 0.01, "window_s": 600}, "unreachable": {}, "rtt": {}}


def least_loss(path_ids, since):
    """The lower bound with 95% confidence of the loss of the worst of these paths since then."""
    bursts = Burst.objects.filter(path_id__in=path_ids, measured_at__gte=since).values_list(
        "path_id", "sent", "received"
    )
    ratios = []
    for path_id in path_ids:
        counts = [(sent, sent - received) for of, sent, received in bursts if of == path_id]
        sent, lost = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
        ratios.append(float(beta.ppf(0.05, lost, sent - lost + 1)) if lost >= 3 else 0.0)
    return max(ratios)


def test_a_path_with_a_loss_being_checked_is_not_called_normal():
    """The RTT of desy ↔ ornl is longer, and slac ↔ ornl loses 3%, which is no incident yet."""
    faults = [
        Planted(between("desy", "ornl"), 0.0, delay_ms=60.0),
        Planted(between("slac", "ornl"), 20.0, lost_ratio=0.03),
    ]
    paths, rows = plant(faults, 440, 2, **RULES)
    lossy = [path.pk for name, path in paths.items() if {"slac", "ornl"} == set(name.split(" → "))]

    looks = 0
    for at_s, _, lasting in look_at(rows, range(140, 440, 20)):
        effects = {rule_of(row.rule).effect for of in lasting.values() for row in of.paths.all()}
        if Effect.LOSS in effects or least_loss(lossy, at(at_s - 300.0)) <= 0.011:
            continue
        for incident in lasting.values():
            near = [share for share in incident.shares if share["where"].endswith("ornl")]
            looks += bool(near)
            assert not near or any(share.get("unclear") for share in near), incident.shares
    assert looks
