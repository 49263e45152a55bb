"""Each page and document says alike which packets are excluded."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.analysis.figures import EXCLUDED_PACKETS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "name", ["docs/pages.md", "docs/archive.md", "docs/prometheus.md", "dashboards/json/paths.json"]
)
def test_documents_say_which_packets_are_excluded(name):
    text = " ".join((ROOT / name).read_text().split())

    assert EXCLUDED_PACKETS.removesuffix(".") in text
    assert "from or to either end of the path" in EXCLUDED_PACKETS


@pytest.mark.parametrize("page", ["grid/grid.html", "incidents/incident.html"])
def test_pages_take_that_text(page):
    template = (ROOT / "monitor/web/pages" / page).read_text()

    assert "{% excluded_packets %}" in template
    assert "throughput tests are excluded" not in template
