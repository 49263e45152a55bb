"""How many other paths are bad or normal, as evidence for and against a cause: compared with a plain count."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest

from monitor.alerts.detect.shares import Share, Shares
from monitor.mesh.document.alert_rules import Place
from monitor.mesh.queries import MeasuredPath

SITES = ("cern", "slac", "niit", "ictp", "kek")
PATHS = {
    number: MeasuredPath(number, a, b, 4, Place(a, b), 60, 100, datetime(2026, 1, 1, tzinfo=UTC))
    for number, (a, b) in enumerate((a, b) for a in SITES for b in SITES if a != b)
}


def ids(source=None, destination=None):
    return {
        number
        for number, path in PATHS.items()
        if source in (None, path.source) and destination in (None, path.destination)
    }


def test_a_site_direction_is_compared_with_its_reverse():
    outbound = ids("cern")

    shares = Shares(PATHS, outbound, ()).others(outbound)

    assert shares[1:] == [Share("paths to cern", 0, 4), Share("elsewhere", 0, 12)]
    assert shares[0].text == "no other path from cern"


def test_a_single_path_is_compared_with_paths_of_both_its_sites():
    problem_ids = ids("cern", "slac")

    assert [share.text for share in Shares(PATHS, problem_ids | ids("niit", "kek"), ()).others(problem_ids)] == [
        "other paths from cern: normal (3 paths)",
        "paths to cern: normal (4 paths)",
        "paths from slac: normal (4 paths)",
        "other paths to slac: normal (3 paths)",
        "elsewhere: 1 of 6 paths bad",
    ]


def test_paths_without_data_are_not_counted():
    outbound = ids("cern")

    *_, inbound, elsewhere = Shares(PATHS, outbound, ids(None, "cern")).others(outbound)

    assert elsewhere == Share("elsewhere", 0, 12)
    assert (inbound.known, inbound.text) == (0, "other paths to cern: 4 of other incidents")


def test_paths_of_other_incidents_and_without_data_are_said_apart():
    outbound, apart = ids("cern"), ids("niit")
    silent = ids("niit", "kek")

    share = Shares(PATHS, outbound, apart, silent).others(outbound)[-1]

    assert share.text == "all other paths normal (9 paths), but for 2 of other incidents and 1 without data"


def test_where_every_path_is_bad_there_is_no_comparison():
    assert Shares(PATHS, PATHS, ()).others(PATHS) == []


@pytest.mark.parametrize("seed", range(20))
def test_each_share_equals_a_plain_count(seed):
    chance = random.Random(seed)
    bad = {number for number in PATHS if chance.random() < 0.3}
    unknown = {number for number in PATHS if chance.random() < 0.1} - bad
    own = {number for number in bad if chance.random() < 0.5} or {next(iter(PATHS))}
    common = set.intersection(*({PATHS[path_id].source, PATHS[path_id].destination} for path_id in own))
    rest = PATHS.keys() - own - unknown

    counts = Shares(PATHS, bad, unknown)
    normal = PATHS.keys() - own - bad - unknown
    assert [number for number, is_normal in zip(PATHS, counts.without_alarm(own), strict=True) if is_normal] == sorted(
        normal
    )
    unclear = {number for number in normal if chance.random() < 0.3}

    for share in counts.others(own, counts.mask(unclear)):
        *_, way, site = ["", "", *share.where.removeprefix("other ").split()]
        if way == "from":
            area = rest & ids(site)
        elif way == "to":
            area = rest & ids(None, site)
        else:
            area = {path_id for path_id in rest if not common & {PATHS[path_id].source, PATHS[path_id].destination}}
        assert (share.bad, share.known, share.unclear) == (len(area & bad), len(area), len(area & unclear)), share
