"""The pages of aggregate tests: the whole and a part are told apart, and the members' paths link to them."""

from __future__ import annotations

import csv
import json
import re
from html import unescape

import pytest
from django.core.management import call_command

from tests.db.aggregate_rows import aggregate_run
from tests.db.pages_mesh import MINUTE, NOW
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]


@pytest.fixture
def get(client):
    def fetch(address, status=200):
        answer = client.get(address, headers={"host": "localhost"})
        assert answer.status_code == status, answer.content
        return answer.content.decode()

    return fetch


@pytest.fixture
def members(paths):
    return [paths["slac", "cern"], paths["uct", "cern"]]


def words(html):
    return unescape(" ".join(re.sub(r"<[^>]*>", " ", html).split()))


def test_a_complete_test_shows_sum_fairness_and_members(get, members, paths):
    run = aggregate_run(members, NOW - 30 * MINUTE, others=[paths["cern", "slac"]])
    page = words(get(f"/aggregates/{run.pk}/"))

    assert lacks(page, "21 Mbit/s sum of 2 members", "0.980 fairness", "All 2 members sent together for 19.5 s") == []
    assert lacks(page, "slac → cern 12 Mbit/s 12.6 Mbit/s 0.00 s", "uct → cern 9 Mbit/s 9.45 Mbit/s 0.10 s") == []
    assert lacks(page, "cern → slac 100 bytes uplink cern/wan RTT higher", "86.40 ms", "1 of 20") == []
    assert "artial" not in page


def test_a_part_is_never_shown_as_the_sum(get, members):
    run = aggregate_run(members, NOW - 30 * MINUTE, missing=1)
    page, listing = words(get(f"/aggregates/{run.pk}/")), words(get("/aggregates/"))

    assert lacks(page, "12 Mbit/s partial sum: 1 of 2 members", "not the result of the test", "not completed") == []
    assert "sum of 2" not in page
    assert lacks(listing, "into-cern many-to-one – – 1 of 2 partial", "without a result: uct → cern") == []
    assert "12 Mbit/s" not in listing


def test_the_list_links_to_runs_and_a_period_without_any_says_so(get, members):
    run = aggregate_run(members, NOW - 30 * MINUTE)

    assert f'href="/aggregates/{run.pk}/"' in get("/aggregates/")
    assert 'href="/aggregates/"' in get("/throughput/")
    empty = words(get("/aggregates/?since=2026-01-01T00:00&until=2026-01-02T00:00"))
    assert lacks(empty, "No aggregate test in", 'kind = "aggregate"') == []
    assert "There is no aggregate test 7" in words(get("/aggregates/7/", 404))


def test_the_pages_of_members_link_to_the_test(get, members, paths):
    run = aggregate_run(members, NOW - 30 * MINUTE)

    for path in members:
        assert f'href="/aggregates/{run.pk}/"' in get(f"/paths/{path.pk}/?tab=tests")
    assert "/aggregates/" not in get(f"/paths/{paths['cern', 'slac'].pk}/?tab=tests")


def test_csv_has_a_row_for_each_member(get, members):
    aggregate_run(members, NOW - 30 * MINUTE, missing=1)
    rows = list(csv.DictReader(get("/aggregates.csv").splitlines()))

    assert [(row["source"], row["common_bps"], row["outcome"]) for row in rows] == [
        ("slac", "12000000.0", "measured"),
        ("uct", "", "not completed"),
    ]
    assert {(row["state"], row["sum_bps"], row["partial_sum_bps"]) for row in rows} == {("partial", "", "12000000.0")}


def test_the_command_prints_the_same(capsys, members, paths, settings):
    aggregate_run(members, NOW - 30 * MINUTE, missing=1, others=[paths["cern", "slac"]])
    call_command("throughput", "aggregates", "--days", "3650")
    text = capsys.readouterr().out

    assert (
        lacks(text, "into-cern", "partial sum 12 Mbit/s of 1 members", "uct → cern: not completed", "RTT higher") == []
    )
    call_command("throughput", "aggregates", "--days", "3650", "--json")
    said = json.loads(capsys.readouterr().out)
    assert (said["state"], said["sum_bps"], said["partial_sum_bps"]) == ("partial", None, 12e6)
