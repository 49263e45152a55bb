"""The figures of a throughput test on the path page, as text."""

from __future__ import annotations

import pytest

from monitor.archive.diagnosis.findings import Findings
from monitor.web.pages.path.transfer import finding_facts


@pytest.mark.parametrize(
    ("start_s", "text"),
    [
        (0.3, "0.30 s of 5.0 s"),
        (0.5004, "0.50 s of 5.0 s"),  # a tenth, and nothing that a test of the same length lacks
        (1.24, "1.24 s of 5.0 s: too long for this test, which needs 13 s"),
    ],
)
def test_a_longer_test_is_needed_only_if_it_is_longer(start_s, text):
    # Slow start is to be a tenth of a test at most.
    findings = Findings(duration_s=5.0, start_s=start_s, too_short=start_s > 0.5, wanted_s=10 * start_s)

    assert dict(finding_facts(findings))["slow start"] == text
