"""Names while a part of the paths has alarmed, on a few of the faults of `python -m tests.scored causes-partial`."""

from __future__ import annotations

import pytest

from tests.causes.partial.faults import planted
from tests.causes.partial.runs import SHARES, run
from tests.causes.partial.scoring import Mark, mark, wrong_names

QUICK = {("uplink", 6), ("site inbound", 1), ("two pairs of a site, alike", 1)}


@pytest.mark.parametrize(
    "fault", [fault for fault in planted(range(7)) if (fault.kind, fault.seed) in QUICK], ids=lambda fault: fault.kind
)
def test_the_planted_cause_is_named_from_a_third_of_its_paths_on(fault):
    names = run(fault)

    assert {share: mark(fault, names.at_share[share]) for share in SHARES} == dict.fromkeys(SHARES, Mark.RIGHT)
    assert wrong_names(fault, names.ever) == []
    assert set(names.last) == {trouble.name for trouble in fault.troubles}
