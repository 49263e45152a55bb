"""Loss by direction in the weekly report: paths that lose one way, in a sentence and in a table."""

from dataclasses import replace
from datetime import timedelta

import pytest

from monitor.archive.models import DirectionHour
from monitor.reports.contents.report import ReportScope
from monitor.reports.formats import mail, page
from monitor.reports.formats.sections import MOST_LISTED
from monitor.reports.formats.view import view_of
from tests.db.alert_rows import make_mesh
from tests.db.report_rows import ENGLISH, WEEK, make_hours, report
from tests.facts import lacks

pytestmark = pytest.mark.django_db


@pytest.fixture
def paths():
    paths = make_mesh(["slac", "cern"], WEEK.since - timedelta(days=60))
    for path in paths.values():
        make_hours(path, WEEK.since)
    return paths


def count(path, forward_lost=0, reverse_lost=0, hours=24, counted=600):
    """STAMP hours of 60 cycles of ten packets, each with these losses, in as many cycles."""
    DirectionHour.objects.bulk_create(
        DirectionHour(
            path_id=path.pk,
            hour=WEEK.since + number * timedelta(hours=1),
            bursts=60,
            bursts_counted=60 if counted else 0,
            bursts_delayed=60,
            sent=600,
            received=600 - forward_lost - reverse_lost,
            counted=counted,
            forward_lost=forward_lost,
            forward_lossy=min(60, forward_lost),
            reverse_lost=reverse_lost,
            reverse_lossy=min(60, reverse_lost),
        )
        for number in range(hours)
    )


def one_way(written):
    return [sentence for sentence in written.sentences if sentence.rule == "one way"]


def test_a_loss_in_one_direction_is_named_once_with_its_reverse(paths):
    """20 of 600 an hour from slac to cern: forward on a path, and reverse on the path back."""
    count(paths["slac → cern"], forward_lost=20)
    count(paths["cern → slac"], reverse_lost=20)

    (sentence,) = one_way(report())

    # 480 of 14,400 there; 3 / 13,920 is 0.0216%.
    assert lacks(sentence.text, "slac → cern 3.3%", "reverse < 0.022%") == []
    assert "cern → slac" not in sentence.text
    assert sentence.figures == {"slac → cern": pytest.approx(480 / 14_400)}


@pytest.mark.parametrize(
    "losses", [{}, {"forward_lost": 6, "reverse_lost": 6}, {"forward_lost": 1, "hours": 1}, {"counted": 0}]
)
def test_nothing_is_named_without_proof_of_one_direction(paths, losses):
    count(paths["slac → cern"], **losses)

    assert one_way(report()) == []


def test_both_directions_stand_side_by_side_one_way_losses_first(paths):
    count(paths["slac → cern"], forward_lost=40, reverse_lost=60)
    count(paths["cern → slac"], reverse_lost=20)

    view = view_of(report(), ENGLISH)

    assert view.directions == (
        ("cern → slac", "< 0.021% of 14,400 packets", "3.3% of 14,400 packets", "reverse only"),
        ("slac → cern", "6.7% of 14,400 packets", "10.7% of 13,440 packets", "both"),
    )
    assert lacks(view.directions_note, "2 paths", "2 with loss", "1 in one direction only") == []


def test_a_loss_that_no_count_proves_is_undetermined(paths):
    count(paths["slac → cern"], forward_lost=1, hours=1)

    ((*_, lost),) = view_of(report(), ENGLISH).directions
    assert lost == "cannot tell"


def test_page_and_mail_have_the_section(paths):
    count(paths["slac → cern"], forward_lost=20)
    written = report()

    for html in (page.render(written, ENGLISH), mail.html(written, ENGLISH, "https://example.org/u")):
        assert lacks(html, "Directions</h2>", "forward only", "by STAMP") == []


def test_a_report_without_stamp_has_no_section(paths):
    assert "Directions" not in page.render(report(), ENGLISH)


def test_of_many_lossy_paths_the_worst_are_listed(paths):
    count(paths["slac → cern"], forward_lost=20)
    written = report()
    (lossy,) = [path for path in written.paths if path.directions is not None]
    many = replace(written, paths=tuple(replace(lossy, path_id=number) for number in range(MOST_LISTED + 3)))

    view = view_of(many, ENGLISH)
    assert len(view.directions) == MOST_LISTED
    assert lacks(view.directions_note, "13 with loss", f"the {MOST_LISTED} with the most loss") == []


def test_a_report_of_a_site_has_only_its_paths(paths):
    count(paths["slac → cern"], forward_lost=20)

    assert one_way(report(scope=ReportScope("site", "slac")))
