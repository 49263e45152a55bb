"""Reads the cells of the grid's page, the page of a path, and the gauges for Prometheus.

In: HTML or text. Out: plain dictionaries, to be stored as JSON.
"""

from __future__ import annotations

import html
import re
from typing import Any

CELL = re.compile(
    r'<td class="(?P<style>[^"]*)"><a id="p(?P<path_id>\d+)"[^>]* aria-label="(?P<said>[^"]*)">(?P<content>.*?)</a>',
    re.DOTALL,
)
SIGN = re.compile(r'<(b|span) class="sign[^"]*"[^>]*>(?P<sign>.*?)</\1>', re.DOTALL)
NUMBER_OF_PATHS = re.compile(r"<sup>\d+</sup>")
ALARM = re.compile(r'<p class="alarm[^"]*">(.*?)</p>', re.DOTALL)
LINK = re.compile(r"<a [^>]*>(.*?)</a>", re.DOTALL)
PRESENT = re.compile(r'<p class="present" id="present"[^>]*>(.*?)</p>', re.DOTALL)
ROWS = re.compile(r'id="present-rows".*?</details>', re.DOTALL)
ROW = re.compile(r'<tr><th scope="row">(.*?)</th><td>(.*?)</td>', re.DOTALL)
SAMPLE = re.compile(r"^(?P<name>\w+)\{(?P<labels>[^}]*)\} (?P<value>\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="([^"]*)"')
CONDITIONS = re.compile(r"^# HELP soundings_path_condition .*?: (.*)$", re.MULTILINE)


def grid_cell(markup: str) -> dict[str, Any] | None:
    """A cell of the grid: what a hover says, and its visible text; None without a path."""
    found = CELL.search(markup)
    if found is None:
        return None
    signs = "".join(sign["sign"] for sign in SIGN.finditer(found["content"]))
    return {
        "path_id": int(found["path_id"]),
        "style": found["style"],
        "said": html.unescape(found["said"]),
        "signs": signs,
        "text": text_of(NUMBER_OF_PATHS.sub("", SIGN.sub("", found["content"]))),
    }


def path_page(page: str) -> dict[str, Any]:
    """The banner, the figures of now and the table of the sizes."""
    alarms = [LINK.search(alarm) or alarm for alarm in ALARM.findall(page)]
    texts = [text_of(alarm if isinstance(alarm, str) else alarm[1]) for alarm in alarms]
    present, rows = PRESENT.search(page), ROWS.search(page)
    return {
        "banner": [text.lstrip("▲△ ") for text in texts],
        "now": "" if present is None else text_of(SIGN.sub("", present[1])),
        "rows": []
        if rows is None
        else [{"name": text_of(name), "now": text_of(now)} for name, now in ROW.findall(rows[0])],
    }


def gauges(text: str) -> dict[str, Any]:
    """The condition and loss of each path, and the start of its newest burst by packet size."""
    names = (
        dict(part.split(" ", 1) for part in CONDITIONS.findall(text)[0].split(", ")) if CONDITIONS.search(text) else {}
    )
    found: dict[str, list[dict[str, Any]]] = {"condition": [], "loss": [], "measured": []}
    for sample in SAMPLE.finditer(text):
        labels, value = dict(LABEL.findall(sample["labels"])), float(sample["value"])
        of = {"path_id": int(labels.get("path", 0)), "packet_bytes": int(labels.get("packet_bytes", 0)) or None}
        match sample["name"]:
            case "soundings_path_condition":
                found["condition"].append({**of, "value": names.get(f"{value:.0f}", "")})
            case "soundings_path_loss_ratio":
                found["loss"].append({**of, "value": value})
            case "soundings_path_measured_timestamp_seconds":
                found["measured"].append({**of, "value": value})
    return found


def text_of(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", markup)).split())
