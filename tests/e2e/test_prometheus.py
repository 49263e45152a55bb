"""`/metrics` of a deployed centre, two processes with a Redis, while an agent delivers; and the example files.

promtool checks the metrics and the files; without it that test is skipped, in CI it fails.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
import yaml
from django.contrib.auth.models import Group, User
from prometheus_client.parser import text_string_to_metric_families

from monitor.accounts.models import issue_user_token
from monitor.agents.models import issue_token
from monitor.archive.models import BurstHour
from monitor.archive.rollup import recompute
from monitor.archive.upkeep import samples
from monitor.stack import broker
from probes.packets.spec import Burst
from tests.db.mesh_of_three import MeshOfThree, batch, burst, delivered, make_mesh
from tests.e2e.centre import web_server
from tests.e2e.stack import wait_for

pytestmark = pytest.mark.django_db(transaction=True)
EXAMPLES = Path(__file__).parents[2] / "packaging" / "prometheus"
RULES = yaml.safe_load((EXAMPLES / "soundings.rules.yml").read_text())["groups"]
CONFIG = yaml.safe_load((EXAMPLES / "prometheus.yml").read_text())
DOCS = Path(__file__).parents[2] / "docs" / "prometheus.md"
PROMTOOL = shutil.which("promtool")


@pytest.fixture
def groups(transactional_db: None) -> None:
    """The roles, which an earlier test's clean-up removes."""
    Group.objects.get_or_create(name="viewer")


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    socket = tmp_path / "redis.sock"
    process = subprocess.Popen(broker.command(socket), stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: broker.answers(socket), 30, "Redis answers")
        yield f"redis+socket://{socket}"
    finally:
        process.terminate()
        process.wait(timeout=10)


@pytest.fixture
def mesh(groups: None) -> MeshOfThree:
    return make_mesh()


@pytest.fixture
def centre(mesh: MeshOfThree, redis_url: str, tmp_path: Path) -> Iterator[str]:
    """The address of a centre that requires a token even of this machine."""
    with web_server(tmp_path, SOUNDINGS_REDIS_URL=redis_url, SOUNDINGS_ALLOW_PLAIN_HTTP="1") as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def token(groups: None) -> str:
    user = User.objects.create_user("prometheus")
    user.groups.add(Group.objects.get(name="viewer"))
    return issue_user_token(user.pk, "scrapes", datetime.now(UTC))


def scrape(address: str, token: str) -> str:
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return str(answer.read().decode())


def values(text: str) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def deliver(centre: str, token: str, number: int, result: Burst, path_id: int) -> None:
    body = msgspec.json.encode(batch(delivered(path_id, result, number), number=number, sent_at=datetime.now(UTC)))
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{centre}/api/agent/results", data=body, headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200


def test_every_process_reports_the_same_non_decreasing_counters(
    centre: str, token: str, mesh: MeshOfThree, settings: object, redis_url: str
) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    agent = issue_token(mesh.slac.pk, now)
    delivered_so_far, totals = 0, []

    for number in range(1, 9):
        at = now - timedelta(seconds=number)
        deliver(centre, agent, number, burst(1.0, None, at=at), mesh.slac_cern.pk)
        recompute.roll_up(now, 100)
        delivered_so_far += 1
        scraped = values(scrape(f"{centre}/metrics", token))
        totals.append(
            (
                scraped[("soundings_results_delivered_total", "site=slac")],
                scraped[("soundings_deliveries_total", "status=200")],
            )
        )

    assert totals == sorted(totals)
    wait_for(
        lambda: (
            values(scrape(f"{centre}/metrics", token))[("soundings_results_delivered_total", "site=slac")]
            == delivered_so_far
        ),
        30,
        "all that was delivered is told",
    )
    if now.date() == (now - timedelta(seconds=8)).date():
        paths = values(scrape(f"{centre}/metrics/paths", token))
        [requests] = [value for key, value in paths.items() if key[0] == "smokeping_requests_total"]
        # The bursts of two deliveries may be of two hours.
        assert requests == sum(BurstHour.objects.values_list("sent", flat=True)) == 2 * delivered_so_far


@pytest.fixture(scope="module")
def scraped() -> list[str]:
    """All metrics, once a test has scraped them."""
    return []


@pytest.fixture
def everything(scraped: list[str], request: pytest.FixtureRequest) -> str:
    """All metrics of a centre and an agent, for the tests that only read their text."""
    if not scraped:
        scraped.append(request.getfixturevalue("scraped_now"))
    return scraped[0]


@pytest.fixture
def scraped_now(centre: str, token: str, mesh: MeshOfThree, redis_url: str, settings: object) -> str:
    """All metrics of a centre and an agent, with an incident and a sample of the last minute."""
    settings.REDIS_URL = redis_url  # type: ignore[attr-defined]
    now = datetime.now(UTC)
    agent = issue_token(mesh.slac.pk, now)
    deliver(centre, agent, 1, burst(1.0, at=now), mesh.slac_cern.pk)
    recompute.roll_up(now, 100)
    samples.take(now)
    return scrape(f"{centre}/metrics", token) + scrape(f"{centre}/metrics/paths", token)


NAME = re.compile(r"\b(?:soundings|smokeping)_\w+\b")


def names_of(text: str) -> set[str]:
    """Names of metric families and of their samples."""
    return set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)) | set(
        re.findall(r"^(\w+)(?:\{| )", text, re.MULTILINE)
    )


def test_the_example_rules_use_existing_metrics(everything: str) -> None:
    used_names = {name for group in RULES for rule in group["rules"] for name in NAME.findall(rule["expr"])}
    recorded = {rule.get("record", "").split(":")[-2] for group in RULES for rule in group["rules"] if "record" in rule}

    assert len(used_names) > 10
    assert recorded == {"smokeping_probe_success", "smokeping_response_duration_seconds"}
    assert used_names <= names_of(everything)


def test_the_documentation_lists_exactly_the_exported_metrics(everything: str, tmp_path: Path) -> None:
    served = set(re.findall(r"^# TYPE (\S+)", everything, re.MULTILINE))
    documented = set(re.findall(r"^\| `((?:soundings|smokeping)_\w+)", DOCS.read_text(), re.MULTILINE))

    assert {name for name in documented if not name.startswith("soundings_site_")} == served


def test_the_example_scrapes_existing_addresses(centre: str, token: str) -> None:
    jobs = {job["job_name"]: job for job in CONFIG["scrape_configs"]}

    assert CONFIG["rule_files"] == ["soundings.rules.yml"]
    for job in (jobs["soundings"], jobs["soundings-paths"]):
        assert job["authorization"].keys() == {"credentials_file"}
        assert scrape(centre + job.get("metrics_path", "/metrics"), token) is not None
    by_site = jobs["soundings-paths"]["relabel_configs"]
    assert [relabelling["target_label"] for relabelling in by_site] == ["__param_source", "__address__"]
    assert scrape(
        f"{centre}/metrics/paths?source={jobs['soundings-paths']['static_configs'][0]['targets'][0]}", token
    ) == (scrape(f"{centre}/metrics/paths?source=nowhere", token))


@pytest.mark.skipif(PROMTOOL is None and not os.environ.get("CI"), reason="needs promtool")
def test_promtool_reports_no_problem(everything: str, tmp_path: Path) -> None:
    assert PROMTOOL is not None
    served = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=everything, capture_output=True, text=True, check=False
    )
    (tmp_path / "soundings.token").write_text("x")
    text = (
        (EXAMPLES / "prometheus.yml")
        .read_text()
        .replace("/etc/prometheus/soundings.token", str(tmp_path / "soundings.token"))
    )
    (tmp_path / "prometheus.yml").write_text(text)
    shutil.copy(EXAMPLES / "soundings.rules.yml", tmp_path)
    config = subprocess.run(
        [PROMTOOL, "check", "config", str(tmp_path / "prometheus.yml")], capture_output=True, text=True, check=False
    )

    assert (served.returncode, served.stderr) == (0, "")
    assert config.returncode == 0, config.stderr
