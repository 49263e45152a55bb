"""Results that are spooled while the clock is wrong are stored, flagged, and reported with the delivery."""

import argparse
import sys
import time
from datetime import UTC, datetime

import msgspec
import pytest

from probes.commands.own_command import probes_command
from probes.site import command
from probes.site.delivery.centre import Centre
from probes.site.delivery.centre_clock import CentreClock
from probes.site.delivery.deliver import DeliveryLoop
from probes.site.delivery.health_report import HealthReporter
from probes.site.health import ClockOff, Health
from probes.site.settings import JoinedCentre, joined_file
from probes.site.spool.contents import read_contents
from probes.site.spool.spool import Spool
from probes.site.wire import RECEIVED_HEADER, SENT_HEADER, Plan
from tests.facts import lacks
from tests.unit.site.test_deliver import FakeCentre, server  # noqa: F401
from tests.unit.site.test_spool import result

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.fixture
def centre_with_clock(server: FakeCentre):  # noqa: F811
    """The fake centre, which adds its clock to its answers as the real centre does."""
    received_at = []

    class ClockHandler(server.RequestHandlerClass):
        def parse_request(self):
            received_at.append(time.time())
            return super().parse_request()

        def end_headers(self):
            self.send_header(RECEIVED_HEADER, f"{received_at[-1]:.6f}")
            self.send_header(SENT_HEADER, f"{time.time():.6f}")
            super().end_headers()

    server.RequestHandlerClass = ClockHandler
    server.plan = Plan(version="v1", site="slac", mesh="test")
    return server


class Site:
    """The parts of an agent that use its clock, which is `ahead_s` ahead of the centre's."""

    def __init__(self, folder, url):
        (folder / "token").write_text("s3cret")
        self.ahead_s = 0.0
        self.clock = CentreClock(wall_s=lambda: time.time() + self.ahead_s)
        self.centre = Centre(url, folder / "token", clock=self.clock)
        self.spool = Spool(folder / "spool.sqlite3", clock_off_s=self.clock.off_s)
        reporter = HealthReporter(self.clock, self.spool)
        self.delivery = DeliveryLoop(self.spool, self.centre, health=reporter.for_batch, now=lambda: NOW)


@pytest.fixture
def site(tmp_path, centre_with_clock):
    return Site(tmp_path, centre_with_clock.url)


def test_with_a_correct_clock_nothing_is_flagged(site, centre_with_clock):
    site.centre.plan(None)
    site.spool.put([result(1)])

    assert site.delivery.run() == 1

    (batch,) = centre_with_clock.batches
    assert [result.clock_off_s for result in batch.results] == [None]
    assert batch.health.clock_off is None
    assert abs(batch.health.clock_offset_s) <= batch.health.clock_uncertainty_s + 1e-3


def test_results_spooled_with_a_wrong_clock_keep_their_flag(site, centre_with_clock):
    site.centre.plan(None)
    site.spool.put([result(1)])
    site.ahead_s = 90.0
    site.spool.put([result(2), result(3)])
    site.ahead_s = 0.0
    site.spool.put([result(4)])

    assert site.delivery.run() == 4

    (batch,) = centre_with_clock.batches
    assert [result.clock_off_s is not None for result in batch.results] == [False, True, True, False]
    assert [result.clock_off_s for result in batch.results[1:3]] == pytest.approx([90.0, 90.0], abs=1.0)
    started = [result.result.started_at for result in batch.results[1:3]]
    assert batch.health.clock_off == ClockOff(
        since=min(started), until=max(started), offset_s=batch.results[1].clock_off_s
    )


def test_before_the_first_contact_nothing_is_flagged(site):
    site.ahead_s = 90.0

    site.spool.put([result(1)])

    batch = site.spool.next_batch(max_results=10, max_bytes=10**6, now=NOW, agent_version="0.1.0")
    assert [result.clock_off_s for result in batch.results] == [None]


def test_a_delivery_records_when_it_was_accepted(site, centre_with_clock):
    assert site.delivery.last_accepted_at is None
    centre_with_clock.answers.append((503, b""))
    site.spool.put([result(1)])

    site.delivery.run()
    assert site.delivery.last_accepted_at is None
    DeliveryLoop.run(delivery := DeliveryLoop(site.spool, site.centre, now=lambda: NOW))

    assert delivery.last_accepted_at == NOW
    assert centre_with_clock.batches[0].health is None


def test_a_batch_without_health_is_that_of_an_older_agent():
    assert Health() == msgspec.json.decode(b"{}", type=Health)


def test_a_spool_can_be_read_while_its_agent_writes(tmp_path):
    spool = Spool(tmp_path / "spool.sqlite3", max_bytes=1)
    spool.put([result(1), result(2)])

    contents = read_contents(tmp_path / "spool.sqlite3")

    assert (contents.queued, contents.set_aside, contents.dropped, contents.slots) == (0, 0, 2, ())


# --- settings written by `join`


def arguments(folder, *words):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(["--data", str(folder), *words])


def test_a_joined_folder_needs_no_options(tmp_path):
    (tmp_path / "token").write_text("s3cret")
    joined = JoinedCentre(centre="http://centre.example", site="cern", allow_plain_http=True)
    joined_file(tmp_path).write_bytes(msgspec.json.encode(joined))

    settings = command._settings(arguments(tmp_path), tmp_path)

    assert (settings.centre, settings.allow_plain_http) == ("http://centre.example", True)
    assert settings.token_file == str(tmp_path / "token")


def test_the_command_line_takes_precedence_over_the_join(tmp_path):
    (tmp_path / "other").write_text("other")
    joined_file(tmp_path).write_bytes(msgspec.json.encode(JoinedCentre(centre="https://centre.example", site="cern")))
    options = arguments(tmp_path, "--centre", "https://other.example", "--token-file", str(tmp_path / "other"))

    settings = command._settings(options, tmp_path)

    assert (settings.centre, settings.token_file) == ("https://other.example", str(tmp_path / "other"))


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        (None, ("joined no centre", "python -m probes site join URL CODE`")),
        ("{", ("join again", "--centre")),
    ],
)
def test_a_folder_that_did_not_join_gets_instructions(tmp_path, capsys, content, facts):
    if content is not None:
        joined_file(tmp_path).write_text(content)

    assert command.run(arguments(tmp_path)) == 1

    assert lacks(capsys.readouterr().err, *facts) == []


@pytest.mark.parametrize("order", [["--data", "D", "status", "--json"], ["status", "--data", "D", "--json"]])
def test_options_are_accepted_before_and_after_a_verb(order):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)

    parsed = parser.parse_args(order)

    assert (str(parsed.data), parsed.json, parsed.allow_plain_http) == ("D", True, False)


@pytest.mark.parametrize(("is_installed", "command_shown"), [(True, "soundings-agent"), (False, "python -m probes")])
def test_commands_are_shown_as_this_python_has_them(monkeypatch, tmp_path, is_installed, command_shown):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    if is_installed:
        (tmp_path / "soundings-agent").touch()

    assert probes_command().endswith(command_shown)
