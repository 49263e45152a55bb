"""A complete report from planted data: planted changes are named and noise is not, word by word."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from pypdf import PdfReader

from monitor.reports.contents.compose import report_of
from monitor.reports.contents.report import ReportScope
from monitor.reports.contents.sentences import RULES
from monitor.reports.formats import mail, page, pdf
from monitor.reports.numbers import Numbers
from tests.db.module_rows import module_rows
from tests.db.report_golden import PLANTED, make_golden
from tests.db.report_rows import ENGLISH, NOW, WEEK, Text
from tests.facts import lacks

GOLDEN = Path(__file__).parent.parent.parent / "fixtures" / "reports" / "golden.txt"

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def report(django_db_setup, django_db_blocker):
    """Created once, since its data take the longest."""
    with module_rows(django_db_blocker):
        make_golden()
        yield report_of(ReportScope(), WEEK, NOW, ENGLISH)


@pytest.fixture(scope="module")
def report_pdf(report):
    return pdf.render(report, ENGLISH)


def changes(report):
    return {
        ("worse" if change.is_worse else "better", change.path.name, str(change.figure))
        for change in (*report.changes.worse, *report.changes.better)
    }


def test_planted_changes_are_named_and_noise_is_not(report):
    assert changes(report) == PLANTED


def test_the_summary_names_the_changes(report):
    (worse,) = [sentence.text for sentence in report.sentences if sentence.rule == "worse"]

    assert lacks(worse, "Significantly worse", "eight weeks", ": loss of slac → cern from 0.0") == []
    assert "cern → slac" not in " ".join(
        sentence.text for sentence in report.sentences if sentence.rule in ("worse", "better")
    )
    assert len({sentence.rule for sentence in report.sentences}) <= len(RULES)


def test_the_page_equals_the_golden_file(report, tmp_path):
    """For an intended change, copy the file named in the failure over the golden file."""
    page_text = "\n".join(Text(page.render(report, ENGLISH)).lines) + "\n"
    actual = tmp_path / "golden.txt"
    actual.write_text(page_text)

    assert page_text.splitlines() == GOLDEN.read_text().splitlines(), f"the text is now in {actual}"


def test_all_figures_are_in_the_readers_form(report):
    german = Numbers("de")
    text = str(Text(page.render(report_of(ReportScope(), WEEK, NOW, german), german)))

    assert len(re.findall(r"\d,\d+%", text)) > 50
    assert re.findall(r"\d\.\d{1,2}\b", text) == []


def test_the_pdfs_text_has_every_section_and_every_path(report, report_pdf):
    text = " ".join(page.extract_text() for page in PdfReader(io.BytesIO(report_pdf)).pages)
    folded = " ".join(text.split())

    for sentence in report.sentences:
        assert " ".join(sentence.text.split()) in folded
    for path in report.paths:
        assert path.name in folded
    for change in PLANTED:
        assert f"{change[0]} {change[1]} {change[2]}" in folded


def test_the_pdf_has_bookmarks_page_numbers_and_is_small(report_pdf):
    reader = PdfReader(io.BytesIO(report_pdf))
    titles = [bookmark.title for bookmark in _flat(reader.outline)]

    assert titles[0] == "Laboratories, week 2026-W47"
    assert {"Summary", "Incidents", "Service levels", "Throughput", "Coverage", "Paths"} <= set(titles)
    for number, pdf_page in enumerate(reader.pages, 1):
        assert f"page {number} of {len(reader.pages)}" in " ".join(pdf_page.extract_text().split())
    assert len(report_pdf) < 2_000_000


def _flat(outline):
    return [bookmark for part in outline for bookmark in (_flat(part) if isinstance(part, list) else [part])]


def test_the_pdf_prints_in_black(report_pdf):
    """Every colour set by its pages is a grey."""
    colours = {
        tuple(round(float(part), 3) for part in operands)
        for page in PdfReader(io.BytesIO(report_pdf)).pages
        for operands, operator in page.get_contents().operations
        if operator in (b"rg", b"RG", b"scn", b"SCN")
    }

    assert colours
    assert all(len(set(colour)) == 1 for colour in colours)


def test_the_mail_states_the_days_of_its_sparklines(report):
    html = mail.html(report, ENGLISH, "https://example.org/unsubscribe/token/")
    bars = re.findall(r"white-space:nowrap\">([^<]+)</span>", html)

    assert {len(line) for line in bars} == {14}
    assert re.search(r"sparklines [^<.]* 14 days", html)


def test_the_report_of_a_large_mesh_stays_small(report):
    """Over a thousand paths and a thousand incidents of a hundred paths each."""
    crowded = replace(report.incidents[0], paths=tuple(path.name for path in report.paths) * 9)
    large = replace(
        report,
        paths=report.paths * 84,
        incidents=(crowded,) * 1000,
        changes=replace(report.changes, worse=report.changes.worse * 400),
    )

    html = mail.html(large, ENGLISH, "https://example.org/unsubscribe/token/")
    of_paths = pdf.render(replace(large, incidents=report.incidents, changes=report.changes), ENGLISH)

    assert len(large.paths) > 1000
    assert len(html.encode()) < 200_000
    assert re.search(r"Only the 60 paths [^<]*most loss[^<]* PDF [^<]* 948 more", html)
    assert re.search(r"Lists [^<]* first 25 entries", html)
    assert len(of_paths) < 2_000_000
