"""The committed dashboards are what the code builds, and Grafana 10 to 12 can show them with what is provisioned."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from dashboards import __main__ as command
from dashboards import render
from dashboards.postgres import SQL_DIR

PROVISIONING = Path(render.__file__).parent / "provisioning"
DATA_SOURCES = yaml.safe_load((PROVISIONING / "datasources/soundings.yaml").read_text())["datasources"]
# Grafana 12 has no AngularJS any more; these panels went with it.
LEGACY_PANELS = {"graph", "singlestat", "table-old", "grafana-worldmap-panel", "grafana-piechart-panel"}


def dashboards() -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in sorted(render.JSON_DIR.glob("*.json"))]


def panels() -> list[dict[str, Any]]:
    return [panel for dashboard in dashboards() for panel in dashboard["panels"]]


def panel_title(panel: dict[str, Any]) -> str:
    return str(panel["title"])


def columns(sql: str) -> set[str]:
    """Names that the outermost SELECT gives its columns."""
    return set(re.findall(r'AS "([^"]+)"', sql))


def test_the_committed_json_is_what_the_code_builds() -> None:
    assert render.stale(command.DASHBOARDS) == [], "run: python -m dashboards"


def test_a_changed_a_missing_and_a_left_over_file_are_stale(tmp_path: Path) -> None:
    render.write(command.DASHBOARDS, tmp_path)
    assert render.stale(command.DASHBOARDS, tmp_path) == []

    written = tmp_path / "paths.json"
    written.write_text(written.read_text().replace("now-7d", "now-8d"))
    (tmp_path / "gone.json").write_text("{}")
    assert render.stale(command.DASHBOARDS, tmp_path) == ["gone.json", "paths.json"]

    written.unlink()
    assert render.stale(command.DASHBOARDS, tmp_path) == ["gone.json", "paths.json"]


def test_check_names_the_stale_file_and_what_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "JSON_DIR", tmp_path)
    monkeypatch.setattr(command, "stale", lambda builders: render.stale(builders, tmp_path))

    assert command.main(["--check"]) == 1

    assert capsys.readouterr().err == f"{tmp_path}/paths.json: stale; write it anew with: python -m dashboards\n"
    assert list(tmp_path.iterdir()) == []


def test_every_query_file_is_used_and_begins_with_what_it_returns() -> None:
    used = "".join(file.read_text() for file in render.JSON_DIR.glob("*.json"))
    for file in SQL_DIR.glob("*.sql"):
        text = file.read_text().strip()
        assert text.startswith("-- "), file.name
        assert json.dumps(text, ensure_ascii=False) in used, f"{file.name}: no dashboard has it"


def test_dashboards_have_different_names_and_addresses() -> None:
    for key in ("uid", "title"):
        values = [dashboard[key] for dashboard in dashboards()]
        assert len(values) == len(set(values)) > 0


@pytest.mark.parametrize("panel", panels(), ids=panel_title)
def test_a_panel_explains_itself(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith(".")
    assert panel["type"] not in LEGACY_PANELS
    assert panel["fieldConfig"]["defaults"]["noValue"] not in ("", "0")
    if panel["type"] == "timeseries":
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert re.search(r"\((ms|bit/s|bursts|% of .+)\)$", panel["title"]), "the title says the unit"
        assert panel["fieldConfig"]["defaults"]["custom"]["spanNulls"] is False, "a gap must show"


@pytest.mark.parametrize("panel", panels(), ids=panel_title)
def test_what_a_panel_sets_for_a_column_names_one_that_its_queries_return(panel: dict[str, Any]) -> None:
    returned = set().union(*(columns(target["rawSql"]) for target in panel["targets"]))
    for override in panel["fieldConfig"]["overrides"]:
        assert override["matcher"]["id"] == "byName"
        assert override["matcher"]["options"] in returned
        for setting in override["properties"]:
            if setting["id"] == "custom.fillBelowTo":
                assert setting["value"] in returned


@pytest.mark.parametrize("dashboard", dashboards(), ids=lambda dashboard: str(dashboard["uid"]))
def test_panels_lie_side_by_side_within_the_grid(dashboard: dict[str, Any]) -> None:
    for panel in dashboard["panels"]:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    for first, second in combinations(dashboard["panels"], 2):
        a, b = first["gridPos"], second["gridPos"]
        apart = (
            a["x"] + a["w"] <= b["x"]
            or b["x"] + b["w"] <= a["x"]
            or a["y"] + a["h"] <= b["y"]
            or b["y"] + b["h"] <= a["y"]
        )
        assert apart, f"{first['title']} lies on {second['title']}"


def test_every_query_goes_to_the_data_source_that_is_provisioned() -> None:
    provisioned = [{"type": source["type"], "uid": source["uid"]} for source in DATA_SOURCES]
    for dashboard in dashboards():
        for variable in dashboard["templating"]["list"]:
            assert variable["datasource"] in provisioned
        for panel in dashboard["panels"]:
            assert [panel["datasource"], *(target["datasource"] for target in panel["targets"])] == [
                source for source in provisioned for _ in range(1 + len(panel["targets"]))
            ]


def test_the_data_source_has_a_name_for_every_grafana_from_10_to_12_and_no_secret_in_it() -> None:
    (source,) = DATA_SOURCES
    assert source["type"] == "postgres"
    assert "database" not in source, "Grafana 12 reads the name only from jsonData when the type is the old one"
    assert source["jsonData"]["database"]
    assert source["secureJsonData"]["password"].startswith("$__file{/")


def test_a_query_uses_only_variables_that_come_before_it() -> None:
    for dashboard in dashboards():
        known: set[str] = set()
        for variable in dashboard["templating"]["list"]:
            assert variables_of(variable["query"]) <= known
            known.add(variable["name"])
        used = set().union(*(variables_of(t["rawSql"]) for panel in dashboard["panels"] for t in panel["targets"]))
        assert used <= known


def variables_of(sql: str) -> set[str]:
    """Variables in a query. Each must be written ${name:sqlstring}, which quotes it whatever is in it."""
    assert not re.search(r"\$(?!__|\{\w+:sqlstring\})", sql)
    return set(re.findall(r"\$\{(\w+):sqlstring\}", sql))
