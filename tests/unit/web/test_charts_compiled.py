"""Charts compiled by the centre: Vega without rows, and beside it the rows and values of the spec."""

import json
import re
import subprocess

import pytest

from monitor.web.charts import compiled as compiler
from monitor.web.charts.bundle import BundleError
from monitor.web.charts.compiled import compile_layouts, compiled
from monitor.web.charts.smoke import smoke_chart
from monitor.web.templatetags.charts import chart_script
from tests.unit.web.test_charts import point, series, window


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("charts")


@pytest.fixture(autouse=True)
def _files(settings, folder):
    settings.DATA_DIR = folder
    compiler._vega_of.cache_clear()


def drawn(minutes=3):
    return smoke_chart(series(*[point(minute) for minute in range(minutes)]), [], window(10))


def test_the_layout_is_vega_and_the_rows_are_beside_it():
    spec = drawn()
    chart = compiled(spec)

    assert "/vega/" in chart["vega"]["$schema"]
    names = {data["name"] for data in chart["vega"]["data"]}
    assert {name for name, rows in spec["datasets"].items() if rows} <= names
    assert not any(data.get("values") for data in chart["vega"]["data"])
    assert (chart["datasets"], chart["params"]) == (spec["datasets"], spec["params"])
    assert {param["name"] for param in spec["params"]} <= {signal["name"] for signal in chart["vega"]["signals"]}


def test_no_text_is_written_for_each_row():
    text = json.dumps(compiled(drawn())["vega"])

    assert '"description"' not in text
    assert "RTT, ms" not in text.replace('"title": "RTT, ms"', "")
    assert set(re.findall(r'"tooltip": ({.*?})', text)) == {'{"value": "\\u2026"}'}


def test_each_mark_with_a_tooltip_has_its_lines():
    chart = compiled(drawn())
    marks = {mark["name"] for mark in chart["vega"]["marks"] if "tooltip" in mark["encode"]["update"]}

    assert set(chart["tooltips"]) == marks
    titles = {line["title"] for lines in chart["tooltips"].values() for line in lines}
    assert {"from (UTC)", "95% RTT, ms", "loss", "throughput test"} <= titles


def test_a_zone_has_the_same_compiled_layout(folder):
    spec = drawn()
    before = compiled(spec)
    files = set(folder.rglob("chart-*"))
    spec = json.loads(json.dumps(spec).replace("(UTC)", "(CEST)"))
    spec["usermeta"] = {"offset_ms": 7_200_000, "zone": "CEST"}

    chart = compiled(spec)

    assert set(folder.rglob("chart-*")) == files
    assert chart["vega"] == before["vega"]
    assert json.dumps(chart["tooltips"]).replace("(CEST)", "(UTC)") == json.dumps(before["tooltips"])
    assert "(UTC)" not in json.dumps(chart["tooltips"])


def test_charts_of_other_rows_and_processes_are_not_compiled_again(monkeypatch):
    compile_layouts([drawn()])
    monkeypatch.setattr(subprocess, "run", None)

    compiled(drawn(minutes=5))
    compiler._vega_of.cache_clear()
    compiled(drawn(minutes=2))


def test_a_failure_of_the_compiler_says_why(monkeypatch, settings, tmp_path):
    settings.DATA_DIR = tmp_path
    monkeypatch.setattr(compiler, "_COMPILE", "raise SystemExit('no memory')")

    with pytest.raises(BundleError, match="no memory"):
        compiled(drawn())
    assert list(tmp_path.rglob("chart-*")) == []


def test_a_page_says_why_a_chart_cannot_be_drawn(monkeypatch, settings, tmp_path):
    settings.DATA_DIR = tmp_path
    monkeypatch.setattr(compiler, "_COMPILE", "raise SystemExit('no memory')")

    element = chart_script(drawn(), "rtt-spec")

    told = json.loads(re.search(r'<script id="rtt-spec" type="application/json">(.*)</script>', element)[1])
    assert "no memory" in told["failure"]
