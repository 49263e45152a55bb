"""`manage.py archive recompute`: its results, output and errors. Identical rows are in test_rollups."""

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from monitor.archive.models import BurstDay, BurstHour
from monitor.archive.rollup.recompute import roll_up
from tests.db.merging import merge_all
from tests.db.mesh_of_three import HOUR, NOW, batch, burst, delivered, make_mesh
from tests.deliveries import store

pytestmark = [pytest.mark.django_db, pytest.mark.timescale]


def recompute(capsys, *arguments):
    call_command("archive", "recompute", *arguments)
    return capsys.readouterr().out


@pytest.fixture
def mesh():
    mesh = make_mesh()
    results = [
        delivered(path, burst(10.0, at=HOUR - timedelta(days=n)), 10 * n + number)
        for n in range(3)
        for number, path in enumerate((mesh.slac_cern, mesh.slac_anl), 1)
    ]
    store(mesh.slac.pk, batch(*results), NOW)
    roll_up(NOW)
    merge_all(NOW)
    return mesh


def test_it_prints_and_repairs_the_recomputed_summaries(mesh, capsys):
    for model in (BurstHour, BurstDay):
        model.objects.update(sent=77)

    output = recompute(capsys, "--from", "2026-03-13", "--to", "2026-03-14T13:00")

    assert output == "recomputed: 4 hours, 4 days, 2 months, 2 years\n"
    assert list(BurstHour.objects.filter(sent=77).values_list("hour", flat=True)) == [HOUR - timedelta(days=2)] * 2
    assert BurstDay.objects.filter(sent=77).count() == 2


def test_paths_can_be_selected(mesh, capsys):
    output = recompute(capsys, "--from", "2026-01-01", "--to", "2027-01-01", "--path", str(mesh.slac_anl.pk))

    assert output == "recomputed: 3 hours, 3 days, 1 month, 1 year\n"


def test_times_may_have_an_offset(mesh, capsys):
    output = recompute(capsys, "--from", "2026-03-14T13:00+01:00", "--to", "2026-03-14T13:01+01:00")

    assert output == "recomputed: 2 hours, 2 days, 2 months, 2 years\n"


@pytest.mark.parametrize(("since", "until"), [("0001-01-01", "9999-12-31"), ("9999-12-30", "9999-12-31")])
def test_a_period_of_millennia_is_cut_to_that_of_results(mesh, capsys, monkeypatch, since, until):
    monkeypatch.setattr("monitor.archive.management.commands.archive.EARLIEST", HOUR - timedelta(days=9))
    searched = []
    monkeypatch.setattr(
        "monitor.archive.management.commands.archive.recompute",
        lambda since, until, *others: searched.append((since, until)) or (),
    )

    recompute(capsys, "--from", since, "--to", until)

    [(first, end)] = searched
    assert HOUR - timedelta(days=9) <= first <= end
    assert first.year == 9999 or end <= timezone.now() + timedelta(days=2)


@pytest.mark.parametrize(
    ("since", "until", "message"),
    [
        ("yesterday", "2026-03-14", '"yesterday" is not a time.* 2026-03-14 or 2026-03-14T12:00'),
        ("2026-03-14", "2026-03-13", "--to 2026-03-13T00:00.* not after --from 2026-03-14T00:00"),
    ],
)
def test_an_invalid_period_is_refused(mesh, since, until, message):
    with pytest.raises(CommandError, match=message):
        call_command("archive", "recompute", "--from", since, "--to", until)
