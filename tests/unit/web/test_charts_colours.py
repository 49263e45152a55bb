"""The style sheet's colours: WCAG 2.2 AA contrast in light and dark mode, and a token for each style of the charts."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from monitor.archive.queries.metrics import Metric
from monitor.overview.measures import MEASURES, STEP_STYLES
from monitor.web import labels
from monitor.web.charts.layout import CONFIG
from monitor.web.labels import STATE_STYLES
from monitor.web.pages.grid.cells import BOUND_STYLE, STALE_STYLE

STYLES = Path(labels.__file__).parent / "static/web"
STYLE, DARK = (STYLES / "style.css").read_text(), (STYLES / "dark.css").read_text()
TEXT_AA = 4.5
MARK_AA = 3.0


def tokens(mode: str) -> dict[str, str]:
    """The colour tokens of a mode; tokens that dark mode does not redefine are those of light mode."""
    colours = dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]{6})", STYLE.split("\n}\n", 1)[0]))
    return colours if mode == "light" else colours | dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]{6})", DARK))


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2.2 defines it."""
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(colour: str, other: str) -> float:
    lighter, darker = sorted((luminance(colour), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def test_the_formula_gives_the_published_extremes():
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_every_cell_is_readable(mode):
    colours = tokens(mode)

    pairs = [name.removesuffix("-ink") for name in colours if name.endswith("-ink")]
    weak = {name: contrast(colours[name], colours[f"{name}-ink"]) for name in pairs}
    assert len(pairs) == 18
    assert {name: ratio for name, ratio in weak.items() if ratio < TEXT_AA} == {}
    for name in ("no-data", "stale"):
        assert contrast(colours[f"{name}-hatch"], colours[f"{name}-ink"]) >= TEXT_AA, name


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("ground", ["page", "panel"])
def test_text_and_links_are_readable(mode, ground):
    colours = tokens(mode)

    for ink in ("ink", "ink-quiet", "link", "trouble", "calm", "sign"):
        assert contrast(colours[ink], colours[ground]) >= TEXT_AA, ink
    assert contrast(colours["focus"], colours[ground]) >= MARK_AA


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_loss_gets_stronger_with_every_band(mode):
    """Bands differ in luminance, not only in hue, so that they can be told apart without colour vision."""
    colours = tokens(mode)

    steps = [contrast(colours[f"loss-{band}"], colours["panel"]) for band in range(6)]
    assert steps == sorted(steps)
    assert all(after / before > 1.1 for before, after in pairwise(steps))


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_a_figure_without_newer_data_is_told_from_a_good_one(mode):
    """By its luminance, and by its hatching."""
    colours = tokens(mode)

    for good in ("none-lost", "loss-0", "loss-1"):
        assert contrast(colours["stale"], colours[good]) > 1.1, good
    assert contrast(colours["stale"], colours["stale-hatch"]) > 1.1


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_lines_and_points_of_the_charts_stand_out(mode):
    colours = tokens(mode)

    lines = ("rtt-median", "loss", "estimate", "estimate-floor", "incident-start", "plan-change", "route-change")
    for name in (*lines, "measured", "failed"):
        assert contrast(colours[f"chart-{name}"], colours["panel"]) >= MARK_AA, name


def test_every_style_of_the_charts_has_its_token():
    assert {name for name in CONFIG["style"] if f"chart-{name}" not in tokens("light")} == set()


def test_every_class_of_a_cell_is_in_the_style_sheet():
    styles = {band.style for measure in MEASURES.values() for band in measure.bands}
    styles |= {f"step-{step}" for step in STEP_STYLES[6]} | {
        *STATE_STYLES.values(),
        BOUND_STYLE,
        STALE_STYLE,
        "worse",
        "steady",
        "better",
    }

    assert {style for style in styles if f".{style}" not in STYLE} == set()


@pytest.mark.parametrize(
    ("loss_ratio", "style"),
    [
        (0.0009, "loss-0"),
        (0.001, "loss-1"),
        (0.01, "loss-2"),
        (0.025, "loss-3"),
        (0.05, "loss-4"),
        (0.12, "loss-5"),
        (0.9, "loss-5"),
    ],
)
def test_the_bands_of_loss_are_pingers(loss_ratio, style):
    assert MEASURES[Metric.LOSS].band(loss_ratio).style == style
