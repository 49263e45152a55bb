"""The figures of a throughput test on the path page, as text."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from monitor.archive.diagnosis.findings import Findings
from monitor.web.pages.path.transfer import _buffer_facts, finding_facts
from probes.transfers.hosts.spec import HostInventory
from probes.transfers.spec import Transfer


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


def test_an_end_that_does_not_grant_the_buffer_is_named_with_its_sysctl():
    small, large = (
        HostInventory(sysctls={"net.core.rmem_max": limit, "net.core.wmem_max": "67108864"})
        for limit in ("212992", "67108864")
    )
    stored = SimpleNamespace(
        transfer=Transfer(window_bytes=4_194_304), sender_inventory=large, receiver_inventory=small
    )

    facts = dict(_buffer_facts(stored))

    assert facts["socket buffer requested"] == "4,194,304 bytes"
    assert facts["receiver's limit"] == "212,992 bytes; set there: sysctl -w net.core.rmem_max=4194304"
    assert "sender's limit" not in facts
