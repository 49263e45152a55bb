"""A site with another name in mesh.toml, and its earlier one as `formerly`, stays the same site with its history."""

from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from msgspec.structs import replace

from monitor.accounts.models import ReadLimit
from monitor.agents.models import AgentToken, issue_token
from monitor.mesh.apply import apply
from monitor.mesh.document.entries import HostEntry, MeshDocument, MeshGroup, SiteEntry
from monitor.mesh.kinds.ping import PingEntry
from monitor.mesh.kinds.throughput import ThroughputEntry
from monitor.mesh.models import Host, Measurement, MeasurementPeriod, Path, Site, Slot
from monitor.mesh.renaming import current_names
from monitor.mesh.schedule.slots import plan_slots
from monitor.reports.models import Subscriber
from monitor.stack.services import Stack

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def site(name, number, **fields):
    return SiteEntry(
        name=name, title=name.upper(), latitude_deg=1.0, longitude_deg=2.0, country="CH", region="Europe",
        hosts=(
            HostEntry(name=name, address=f"192.0.2.{number}"),
            HostEntry(name=f"ftp{number}", address=f"192.0.2.{number}0"),
        ),
        **fields,
    )  # fmt: skip


def mesh(*sites, home=None):
    group = MeshGroup(name="all", sites=tuple(site.name for site in sites), tests=("pinger", "tcp"))
    tests = (PingEntry("pinger", every_s=60), ThroughputEntry("tcp", every_s=600))
    return MeshDocument("Mesh", home, tuple(sites), tests, (group,), {})


GENEVA, SLAC = site("geneva", 1), site("slac", 2)
CERN = site("cern", 1, formerly=("geneva",))


def history():
    return {
        model: set(model.objects.values_list("pk", flat=True))
        for model in (Site, Host, Path, Measurement, MeasurementPeriod, Slot, AgentToken)
    }


@pytest.fixture
def before():
    """A mesh with slots, a token, a reader limited to a site and a subscription; its rows."""
    apply(mesh(GENEVA, SLAC, home="geneva"), NOW)
    plan_slots(NOW)
    geneva = Site.objects.get(name="geneva")
    issue_token(geneva.pk, NOW)
    limit = ReadLimit.objects.create(role="viewer")
    limit.sites.add(geneva)
    Subscriber.objects.create(
        recipient="noc@example.org", scope="site", name="geneva", format="pdf", numbers="en", zone="UTC", weekday=0,
        hour=8, token="secret", subscribed_at=NOW,
    )  # fmt: skip
    return history()


def test_a_renamed_site_keeps_every_row(before):
    changes = apply(mesh(CERN, SLAC, home="cern"), LATER)

    assert history() == before
    assert Slot.objects.exists()
    assert [str(row) for row in Site.objects.in_use()] == ["cern", "slac"]
    assert set(Host.objects.in_use().values_list("name", flat=True)) == {"cern", "ftp1", "slac", "ftp2"}
    assert (changes.items[0].kind, changes.items[0].name, changes.items[0].detail) == (
        "site",
        "cern",
        "name geneva → cern",
    )
    assert {change.action for change in changes.items} == {"changed"}
    assert AgentToken.objects.get().site.name == "cern"
    assert ReadLimit.objects.get().sites.get().name == "cern"
    assert Subscriber.objects.get().name == "cern"


def test_the_same_file_again_changes_nothing(before):
    apply(mesh(CERN, SLAC), LATER)

    assert apply(mesh(CERN, SLAC), LATER).is_empty


def test_a_site_may_be_renamed_again_and_without_the_step_between(before):
    apply(mesh(CERN, SLAC), LATER)
    apply(mesh(replace(site("meyrin", 1), formerly=("geneva", "cern")), SLAC), LATER)
    assert history() == before

    apply(mesh(replace(site("europe", 1), formerly=("cern", "meyrin", "other")), SLAC), LATER)

    assert history() == before
    assert current_names(["cern", "other", "geneva", "slac"]) == {"cern": "europe", "other": "europe"}


def test_a_retired_site_returns_by_its_earlier_name(before):
    apply(mesh(SLAC, site("third", 3)), LATER)

    apply(mesh(CERN, SLAC), LATER)

    assert Site.objects.get(name="cern").retired_at is None
    assert Site.objects.count() == 3


def test_without_formerly_a_new_name_is_a_new_site(before):
    apply(mesh(site("cern", 3), SLAC), LATER)

    assert Site.objects.count() == 3
    assert Site.objects.get(name="geneva").retired_at == LATER


def test_a_new_site_of_an_earlier_name_takes_its_links(before):
    apply(mesh(CERN, SLAC), LATER)
    assert current_names(["geneva"]) == {"geneva": "cern"}

    Site.objects.create(
        name="geneva", title="", latitude_deg=0, longitude_deg=0, country="CH", region="", has_agent=True
    )

    assert current_names(["geneva"]) == {}


def test_a_command_with_the_earlier_name_says_the_present(before):
    apply(mesh(CERN, SLAC), LATER)

    with pytest.raises(CommandError, match='"geneva" is now "cern"'):
        call_command("site", "token", "geneva", stdout=StringIO())


def test_the_home_sites_agent_keeps_its_folder(before, tmp_path):
    apply(mesh(CERN, SLAC, home="cern"), LATER)
    (tmp_path / "sites" / "geneva").mkdir(parents=True)
    (tmp_path / "sites" / "geneva" / "token").write_text("token")
    stack = Stack.in_folder(tmp_path, 8000, print, None)
    stack._keep_folder("cern", ["unknown", "geneva"])

    assert stack.token_file("cern").read_text() == "token"
    assert not (tmp_path / "sites" / "geneva").exists()
    stack._keep_folder("cern", ["unknown", "geneva"])
    assert stack.token_file("cern").exists()
