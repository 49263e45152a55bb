"""The committed dashboards are those built by the code, and Grafana 10 to 12 can show them with the provisioned data
source."""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.urls import resolve
from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import __main__ as command
from dashboards import paths, render
from dashboards.postgres import MATRICES, SQL_DIR, sql
from monitor.alerts.detect.rules.catalogue import RULES
from tests.facts import lacks

ROW_NAMES = "From\\To"
"""Grafana's name for the column of a matrix that names the rows."""
NO_DATA = "#6B6B6B"
PACKETS_OR_COUNTS = {("Statistics by packet size, ${covers}", "Packets lost")}
PROVISIONING = Path(render.__file__).parent / "provisioning"
DATA_SOURCES = yaml.safe_load((PROVISIONING / "datasources/soundings.yaml").read_text())["datasources"]
[PROVIDER] = yaml.safe_load((PROVISIONING / "dashboards/soundings.yaml").read_text())["providers"]
# Grafana 12 no longer has AngularJS; these panels were removed with it.
UNITS = r"s|ms|bytes|bit/s|results/s|bursts|results|tests|segments|tasks|hours|incidents|% of packets sent"
UNITS_OF_COLUMNS = (
    (r"^(Loss|Loss, upper bound|Packets lost|Coverage|Complete)$", "percentunit"),
    (r"^RTT ", "ms"),
    (r"^(Throughput|Mean|Maximum|Estimate.*|Capacity|(Lower|Upper) bound)$", "bps"),
    (r"^(Last delivery|Clock offset|Beat and worker|Latest delivery|Duration|Summaries behind)$", "s"),
    (r"^(Detected|Resolved|Newest)$", "dateTimeAsIso"),
    (r"^Database$", "bytes"),
)
"""The unit of a column with this name, unless it is the only column of its panel."""
LEGACY_PANELS = {"graph", "singlestat", "table-old", "grafana-worldmap-panel", "grafana-piechart-panel"}


def dashboards() -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in sorted(render.JSON_DIR.glob("*.json"))]


def panels() -> list[dict[str, Any]]:
    return [panel for dashboard in dashboards() for panel in panels_of(dashboard)]


def panels_of(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """Those in rows too, without the rows."""
    return [inner for panel in dashboard["panels"] for inner in (panel, *panel.get("panels", ())) if "targets" in inner]


def panel_title(panel: dict[str, Any]) -> str:
    return str(panel["title"])


def columns(sql: str) -> set[str]:
    """Names of the columns of the outermost SELECT."""
    return set(re.findall(r'AS "([^"]+)"', sql))


def test_the_committed_json_is_up_to_date() -> None:
    assert render.stale(command.DASHBOARDS) == [], "run: python -m dashboards"
    assert render.stale(command.ALERTING, render.ALERTING_DIR) == [], "run: python -m dashboards"


def test_changed_missing_and_left_over_files_are_stale(tmp_path: Path) -> None:
    render.write(command.DASHBOARDS, tmp_path)
    assert render.stale(command.DASHBOARDS, tmp_path) == []

    assert len(list(tmp_path.iterdir())) == len(command.DASHBOARDS) == 6
    written = tmp_path / "paths.json"
    written.write_text(written.read_text().replace("now-24h", "now-25h"))
    (tmp_path / "gone.json").write_text("{}")
    assert render.stale(command.DASHBOARDS, tmp_path) == ["gone.json", "paths.json"]

    written.unlink()
    assert render.stale(command.DASHBOARDS, tmp_path) == ["gone.json", "paths.json"]


def test_check_names_the_stale_file_and_the_command_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "JSON_DIR", tmp_path)
    monkeypatch.setattr(command, "DASHBOARDS", {"paths.json": paths.build})

    assert command.main(["--check"]) == 1

    [line] = capsys.readouterr().err.splitlines(keepends=True)
    assert lacks(line, f"{tmp_path}/paths.json:", "stale", "python -m dashboards\n") == []
    assert list(tmp_path.iterdir()) == []


def test_variables_have_no_id_by_which_grafana_would_mix_them_up() -> None:
    """Grafana 11 keys variables by `id`; with the SDK's default, which is the same for all, the last variable wins."""
    variables = [variable for dashboard in dashboards() for variable in dashboard["templating"]["list"]]

    assert len(variables) > 10
    assert [variable["name"] for variable in variables if "id" in variable] == []


def test_no_panel_has_a_repeat_direction_without_repeat() -> None:
    """Grafana 11 draws such a panel as wide as the dashboard."""
    assert [panel["title"] for panel in panels() if "repeatDirection" in panel and "repeat" not in panel] == []


def test_the_folder_of_the_alert_rules_has_no_other_uid() -> None:
    """Alert rules create their folder by its title, before the dashboards; a UID there collides with that folder."""
    provisioned = json.loads((render.ALERTING_DIR / "soundings.json").read_text())

    assert {group["folder"] for group in provisioned["groups"]} == {PROVIDER["folder"]}
    assert "folderUid" not in PROVIDER


def test_every_query_file_is_used_and_begins_with_its_result() -> None:
    files = [*render.JSON_DIR.glob("*.json"), *render.ALERTING_DIR.glob("*.json")]
    used = "".join(file.read_text() for file in files)
    for name in {file.stem for file in SQL_DIR.glob("*.sql")} - {"matrix"} | MATRICES.keys():
        text = sql(name)
        assert text.startswith("-- "), name
        assert json.dumps(text, ensure_ascii=False) in used, f"{name}: no dashboard has it"


def test_dashboards_have_different_names_and_addresses() -> None:
    for key in ("uid", "title"):
        values = [dashboard[key] for dashboard in dashboards()]
        assert len(values) == len(set(values)) > 0


@pytest.mark.parametrize("panel", panels(), ids=panel_title)
def test_a_panel_has_a_description_and_units(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith(".")
    assert panel["type"] not in LEGACY_PANELS
    assert panel["fieldConfig"]["defaults"]["noValue"] not in ("", "0")
    assert panel["type"] in {"stat", "table", "timeseries", "geomap"}
    if panel["type"] == "timeseries":
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert re.search(rf"\(({UNITS})(, ({UNITS}))*\)$", panel["title"]), "the title says the unit"
        assert panel["fieldConfig"]["defaults"]["custom"]["spanNulls"] is False, "a gap must show"


@pytest.mark.parametrize("panel", panels(), ids=panel_title)
def test_column_overrides_of_a_panel_name_columns_of_its_queries(panel: dict[str, Any]) -> None:
    returned = set().union(*(columns(target["rawSql"]) for target in panel["targets"]))
    if "metric" in returned:
        returned |= set(RULES)
    for override in panel["fieldConfig"]["overrides"]:
        assert override["matcher"]["id"] == "byName"
        assert override["matcher"]["options"] in returned | {ROW_NAMES}
        for setting in override["properties"]:
            if setting["id"] == "custom.fillBelowTo":
                assert setting["value"] in returned


@pytest.mark.parametrize("panel", [panel for panel in panels() if panel["type"] != "timeseries"], ids=panel_title)
def test_every_column_with_a_unit_is_shown_with_it(panel: dict[str, Any]) -> None:
    if panel.get("transformations"):
        assert re.search(rf"\(({UNITS})\)", panel["title"]) or panel["title"] == "Condition now", "short cells"
        return
    units = {
        override["matcher"]["options"]: setting["value"]
        for override in panel["fieldConfig"]["overrides"]
        for setting in override["properties"]
        if setting["id"] == "unit"
    }
    for column in set().union(*(shown_columns(target["rawSql"]) for target in panel["targets"])):
        for pattern, unit in UNITS_OF_COLUMNS:
            if re.search(pattern, column) and (panel["title"], column) not in PACKETS_OR_COUNTS:
                assert units.get(column, panel["fieldConfig"]["defaults"].get("unit")) == unit, column


def shown_columns(sql: str) -> set[str]:
    """Columns of the outermost SELECT, which is the last."""
    return columns(sql[sql.rindex("\nSELECT") if "\nSELECT" in sql else 0 :])


@pytest.mark.parametrize("panel", [panel for panel in panels() if panel.get("transformations")], ids=panel_title)
def test_a_matrix_cell_without_data_is_grey_with_a_text(panel: dict[str, Any]) -> None:
    """Grafana colours null as the minimum, and an empty text not at all."""
    [transformation] = panel["transformations"]
    defaults = panel["fieldConfig"]["defaults"]
    special = {
        mapping["options"]["match"]: mapping["options"]["result"]
        for mapping in defaults["mappings"]
        if mapping["type"] == "special"
    }

    assert transformation["id"] == "groupingToMatrix"
    assert transformation["options"]["emptyValue"] == "null"
    assert {transformation["options"][name] for name in ("rowField", "columnField", "valueField")} <= columns(
        panel["targets"][0]["rawSql"]
    )
    assert special == {"null": {"text": "no data", "color": NO_DATA}, "nan": {"text": "–", "color": "transparent"}}
    of_value = [mapping["options"] for mapping in defaults["mappings"] if mapping["type"] == "value"]
    assert {"-1": {"text": " ", "color": "transparent"}} in of_value, "the diagonal is empty"
    assert defaults["custom"]["cellOptions"]["type"] == "color-background"
    assert defaults["thresholds"]["steps"][0] == {"value": None, "color": NO_DATA}


@pytest.mark.parametrize("dashboard", dashboards(), ids=lambda dashboard: str(dashboard["uid"]))
def test_a_dashboard_links_to_others_and_shows_incidents(dashboard: dict[str, Any]) -> None:
    others, page = dashboard["links"]
    incidents, summaries, *routes = dashboard["annotations"]["list"]

    assert (others["type"], others["tags"]) == ("dashboards", dashboard["tags"])
    assert (page["type"], page["url"].startswith(("${soundings}/", "${soundings}${path_page}"))) == ("link", True)
    assert dashboard["templating"]["list"][0]["name"] == "soundings"
    for annotation in (incidents, summaries):
        is_shown = annotation is summaries or dashboard["uid"] != "soundings-system"
        assert annotation["enable"] is is_shown, "an incident of the network says nothing of the system"
        assert {"time", "timeEnd", "text", "tags"} == columns(annotation["target"]["rawSql"])
    assert bool(routes) == ("path" in {variable["name"] for variable in dashboard["templating"]["list"]})
    assert len({annotation["iconColor"] for annotation in (incidents, summaries, *routes)}) == 2 + len(routes)
    for annotation in routes:
        assert {"time", "text", "tags"} == columns(annotation["target"]["rawSql"])


def test_a_dashboard_of_an_item_links_to_the_page_of_that_item() -> None:
    pages = {dashboard["uid"]: dashboard["links"][1]["url"] for dashboard in dashboards()}

    assert pages["soundings-site"] == "${soundings}/sites/${site}/"
    assert pages["soundings-path"] == "${soundings}${path_page}"


@pytest.mark.parametrize("dashboard", dashboards(), ids=lambda dashboard: str(dashboard["uid"]))
def test_links_keep_the_choices_of_their_dashboard(dashboard: dict[str, Any]) -> None:
    """A variable that the dashboard does not have would stay in the address as text."""
    names = {variable["name"] for variable in dashboard["templating"]["list"]}
    urls = re.findall(r'"url": "(/d/[^"]+)"', json.dumps(dashboard))

    for url in urls:
        assert set(re.findall(r"\$\{(\w+)\}", url)) - {"__url_time_range"} <= names
        if "packet_bytes" in names:
            assert "&var-packet_bytes=${packet_bytes}" in url
        if "__data.fields[0]" in url:
            assert "&var-family=${family}&" in url


def test_dashboard_links_name_existing_dashboards_and_variables() -> None:
    variables = {dashboard["uid"]: {v["name"] for v in dashboard["templating"]["list"]} for dashboard in dashboards()}
    matches = re.findall(r'"url": "(/d/[^"]+)"', "".join(file.read_text() for file in render.JSON_DIR.glob("*.json")))

    assert len(matches) > 10
    for url in matches:
        uid, query = re.fullmatch(r"/d/([\w-]+)\?(.+)", url).groups()
        assert set(re.findall(r"var-(\w+)=", query)) <= variables[uid]


def test_links_to_our_pages_have_existing_addresses() -> None:
    text = "".join(file.read_text() for file in render.JSON_DIR.glob("*.json"))
    addresses = {
        re.sub(r"\$\{[^}]+\}", "1", url.replace("${path_page}", "/"))
        for url in re.findall(r'"url": "\$\{soundings\}([^"]+)"', text)
    }

    assert {
        "/",
        "/incidents/1/",
        "/sites/1/",
        "/paths/1/?since=1&until=1",
        "/paths/1/?since=1&until=1&size=1",
    } <= addresses
    for url in addresses:
        resolve(url.partition("?")[0])


@pytest.mark.parametrize("dashboard", dashboards(), ids=lambda dashboard: str(dashboard["uid"]))
def test_a_dashboard_is_accepted_by_the_sdks_models(dashboard: dict[str, Any]) -> None:
    """Parsed into the SDK's classes, which drop unknown fields, and serialised again: nothing is lost."""
    target_less = json.loads(json.dumps(dashboard))
    for annotation in target_less["annotations"]["list"]:
        del annotation["target"]  # the SDK knows only that of Grafana's own source

    again = json.loads(render.text(Dashboard.from_json(target_less)))

    assert without_targets(again) == without_targets(target_less)


def without_targets(dashboard: dict[str, Any]) -> dict[str, Any]:
    """Queries are of a data source for which the SDK has no model."""
    return {
        **dashboard,
        "panels": [
            {key: value for key, value in panel.items() if key not in ("targets", "options", "fieldConfig")}
            for panel in panels_of(dashboard)
        ],
    }


def test_alert_rules_have_grafanas_provisioning_format() -> None:
    """Field names and values as in pkg/services/provisioning/alerting/rules_types.go of Grafana 10 to 12."""
    provisioned = json.loads((render.ALERTING_DIR / "soundings.json").read_text())
    rules = [rule for group in provisioned["groups"] for rule in group["rules"]]

    assert provisioned["apiVersion"] == 1
    assert {group["folder"] for group in provisioned["groups"]} == {PROVIDER["folder"]}
    assert len({rule["uid"] for rule in rules}) == len({rule["title"] for rule in rules}) == len(rules) == 4
    for rule in rules:
        assert len(rule["uid"]) <= 40
        assert rule["noDataState"] in {"Alerting", "NoData", "OK"}
        assert rule["execErrState"] in {"Alerting", "Error", "OK"}
        assert re.fullmatch(r"\d+[smh]", rule["for"])
        assert rule["isPaused"] == "$SOUNDINGS_GRAFANA_ALERTS_PAUSED"
        query, threshold = rule["data"]
        assert query["datasourceUid"] == DATA_SOURCES[0]["uid"]
        assert (threshold["datasourceUid"], threshold["model"]["expression"]) == ("__expr__", query["refId"])
        assert rule["condition"] == threshold["refId"]


def test_an_alert_links_to_a_panel_of_its_subject() -> None:
    provisioned = json.loads((render.ALERTING_DIR / "soundings.json").read_text())
    titles = {
        (dashboard["uid"], str(panel["id"])): panel["title"]
        for dashboard in dashboards()
        for panel in panels_of(dashboard)
    }
    linked = {
        rule["uid"]: titles[rule["annotations"]["__dashboardUid__"], rule["annotations"]["__panelId__"]]
        for group in provisioned["groups"]
        for rule in group["rules"]
    }

    assert linked == {
        "soundings-incident": "Open incidents",
        "soundings-agent-silent": "Agents, longest silent first",
        "soundings-centre-stopped": "Status",
        "soundings-summaries-behind": "Lag (s)",
    }


def test_alert_rules_contain_no_stray_dollar_sign() -> None:
    """Provisioning would replace it as an environment variable by an empty text."""
    text = (render.ALERTING_DIR / "soundings.json").read_text()

    assert set(re.findall(r"\$\S*?(?=\")", text)) == {"$SOUNDINGS_GRAFANA_ALERTS_PAUSED"}


@pytest.mark.parametrize("dashboard", dashboards(), ids=lambda dashboard: str(dashboard["uid"]))
def test_panels_are_within_the_grid_without_overlap(dashboard: dict[str, Any]) -> None:
    for panel in dashboard["panels"]:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        assert panel["gridPos"]["h"] >= (1 if panel["type"] == "row" else 3)
    covered = sum(panel["gridPos"]["w"] * panel["gridPos"]["h"] for panel in dashboard["panels"])
    bottom = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"])
    assert covered == 24 * bottom, "the grid has a gap"
    numbered = [inner for panel in dashboard["panels"] for inner in (panel, *panel.get("panels", ()))]
    assert len({panel["id"] for panel in numbered}) == len(numbered)
    for first, second in combinations(dashboard["panels"], 2):
        a, b = first["gridPos"], second["gridPos"]
        apart = (
            a["x"] + a["w"] <= b["x"]
            or b["x"] + b["w"] <= a["x"]
            or a["y"] + a["h"] <= b["y"]
            or b["y"] + b["h"] <= a["y"]
        )
        assert apart, f"{first['title']} lies on {second['title']}"


def test_every_query_uses_the_provisioned_data_source() -> None:
    provisioned = [{"type": source["type"], "uid": source["uid"]} for source in DATA_SOURCES]
    for dashboard in dashboards():
        for variable in dashboard["templating"]["list"]:
            assert variable["datasource"] in provisioned
        for panel in panels_of(dashboard):
            assert [panel["datasource"], *(target["datasource"] for target in panel["targets"])] == [
                source for source in provisioned for _ in range(1 + len(panel["targets"]))
            ]


def test_the_data_source_works_in_grafana_10_to_12() -> None:
    (source,) = DATA_SOURCES
    assert source["type"] == "postgres"
    assert "database" not in source, "Grafana 12 reads the name only from jsonData when the type is the old one"
    assert source["jsonData"]["database"]
    assert source["secureJsonData"]["password"].startswith("$__file{/")


def test_a_query_uses_only_variables_defined_before_it() -> None:
    for dashboard in dashboards():
        names: set[str] = set()
        for variable in dashboard["templating"]["list"]:
            assert variables_of(variable["query"]) <= names
            names.add(variable["name"])
        texts = [t["rawSql"] for panel in panels_of(dashboard) for t in panel["targets"]]
        texts += [annotation["target"]["rawSql"] for annotation in dashboard["annotations"]["list"]]
        used = set().union(*(variables_of(text) for text in texts))
        assert used <= names


def variables_of(sql: str) -> set[str]:
    """Variables in a query. Each must be written ${name:sqlstring}, which quotes any value."""
    assert not re.search(r"\$(?!__(time|interval)|\{\w+:sqlstring\})", sql)
    return set(re.findall(r"\$\{(\w+):sqlstring\}", sql))
