"""The service and the small image of the agent, checked against the project: neither systemd nor a container runs
here."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import probes
from probes.data_folder import SYSTEM_AGENT
from probes.site import command

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "packaging"
UNIT = (FOLDER / "soundings-agent.service").read_text()
DOCKERFILE = (FOLDER / "agent.Dockerfile").read_text()
IMAGE_OF_THE_CENTRE = (ROOT / "Dockerfile").read_text()


def directives(name: str) -> list[str]:
    return re.findall(rf"^{name}=(.+)$", UNIT, re.MULTILINE)


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parse the arguments after `python -m probes site`. Raises SystemExit where the parser refuses them."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return parser.parse_args(arguments)


# --- the service


def test_the_service_runs_the_agent_on_systemds_folder() -> None:
    (start,) = directives("ExecStart")
    program, *words = shlex.split(start)

    assert program == "/opt/soundings-agent/bin/soundings-agent"
    assert words[0] == "run"
    assert parse(words[1:]).data == Path("%S") / directives("StateDirectory")[0]
    assert Path("/var/lib") / directives("StateDirectory")[0] == SYSTEM_AGENT


def test_the_service_has_a_single_capability_and_a_dynamic_user() -> None:
    assert directives("AmbientCapabilities") == directives("CapabilityBoundingSet") == ["CAP_NET_RAW"]
    assert directives("DynamicUser") == directives("NoNewPrivileges") == ["yes"]
    assert directives("ProtectSystem") == ["strict"]
    assert directives("User") == []


def test_the_documents_steps_lead_to_the_files_of_the_service() -> None:
    """The environment, the programs in it and the unit."""
    steps = (ROOT / "docs/agent.md").read_text().partition("## As a service")[2].split("```")[1]
    program = shlex.split(directives("ExecStart")[0])[0]
    environment = program.removesuffix("/bin/soundings-agent")

    assert f"python3 -m venv {environment}\n" in steps
    assert f"{environment}/bin/pip install soundings_agent-{probes.__version__}-py3-none-any.whl\n" in steps
    assert f"{program} join " in steps
    assert f"{environment}/share/soundings/soundings-agent.service /etc/systemd/system/" in steps
    assert {"iperf3", "iproute2", "python3-venv"} <= {*steps.split()}


def test_the_services_journal_rate_is_limited() -> None:
    assert directives("LogRateLimitIntervalSec") == ["30s"]
    assert int(directives("LogRateLimitBurst")[0]) <= 200


def test_the_service_may_read_the_kernels_clock_state() -> None:
    """ProtectClock= forbids these calls, including the read that the agent makes."""
    (calls,) = directives("SystemCallFilter")

    assert {"adjtimex", "clock_adjtime"} <= set(calls.split())
    assert directives("ProtectClock") == []


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None and not os.environ.get("CI"), reason="needs systemd-analyze"
)
def test_systemd_accepts_the_service_with_low_exposure(tmp_path: Path) -> None:
    unit = tmp_path / "soundings-agent.service"
    unit.write_text(UNIT.replace("/opt/soundings-agent/bin/soundings-agent", sys.executable))

    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False
    )
    exposed = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=25", "--json=short", unit],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (verified.returncode, verified.stderr) == (0, "")
    assert exposed.returncode == 0, exposed.stderr
    assert json.loads(exposed.stdout)


# --- the image


def instructions(name: str) -> list[str]:
    return re.findall(rf"^{name} (.+)$", DOCKERFILE.replace("\\\n", " "), re.MULTILINE)


def test_the_image_runs_the_agent_as_an_unprivileged_user() -> None:
    (entry,), (words,) = instructions("ENTRYPOINT"), instructions("CMD")
    assert json.loads(entry) == ["python", "-m", "probes"]
    program, *arguments = json.loads(words)

    assert program == "site"
    assert parse(arguments).data == Path("/data")
    assert instructions("USER") == ["soundings"]
    assert "setcap" not in DOCKERFILE


@pytest.mark.parametrize("dockerfile", [DOCKERFILE, IMAGE_OF_THE_CENTRE], ids=["agent", "centre"])
def test_the_image_has_the_programs_that_the_doctor_checks(dockerfile: str) -> None:
    """`ip` is in iproute2."""
    installed = re.findall(r"apt-get install -y --no-install-recommends (.*?)&&", dockerfile.replace("\\\n", " "))

    assert {"iperf3", "iproute2"} <= {*installed[-1].split()}


def test_the_images_health_check_is_an_existing_command() -> None:
    (check,) = instructions("HEALTHCHECK")
    words = json.loads(check.partition("CMD ")[2])

    assert words[:4] == ["python", "-m", "probes", "site"]
    assert parse(words[4:]).data == Path("/data")


def test_the_image_has_the_centres_base_and_user() -> None:
    (base,) = set(re.findall(r"^FROM (\S+)", IMAGE_OF_THE_CENTRE, re.MULTILINE))
    user = re.compile(r"groupadd --gid (\d+) soundings.*?useradd --uid (\d+)", re.DOTALL)

    assert {line.split()[0] for line in instructions("FROM")} == {base}
    assert user.search(DOCKERFILE).groups() == user.search(IMAGE_OF_THE_CENTRE).groups()


def test_files_copied_into_the_image_are_in_the_build_context() -> None:
    copied = [source for line in instructions("COPY") if not line.startswith("--from=") for source in line.split()[:-1]]
    sent = (FOLDER / "agent.Dockerfile.dockerignore").read_text().splitlines()

    assert "probes" in copied
    assert [source for source in copied if not (ROOT / source).exists()] == []
    assert [source for source in copied if f"!{source}" not in sent] == []


# --- the requirements


def blocks(path: Path) -> dict[str, list[str]]:
    """The lines of each requirement, its hashes included, by name."""
    imports: dict[str, list[str]] = {}
    for block in re.split(r"(?m)^(?=[^\s#])", path.read_text()):
        if block.strip():
            imports.setdefault(canonicalize_name(re.match(r"[\w.-]+", block)[0]), []).append(block)
    return imports


AGENT = blocks(FOLDER / "requirements-agent.txt")


def test_the_agents_versions_and_hashes_are_the_projects() -> None:
    whole = blocks(ROOT / "requirements.txt")

    assert {name: block for name, block in AGENT.items() if whole.get(name) != block} == {}


def test_both_images_poll_routers_with_the_tested_versions() -> None:
    """pysnmp is no requirement of an agent, but an image cannot be added to."""
    locked, tested = blocks(FOLDER / "requirements-agent-snmp.txt"), blocks(ROOT / "requirements-dev.txt")
    wanted = {canonicalize_name(name) for name in (FOLDER / "requirements-agent-snmp.in").read_text().split()}

    def pin(block: list[str]) -> tuple[str, list[str]]:
        return re.search(r"==([\w.]+)", block[0])[1], re.findall(r"sha256:\w+", block[0])

    assert wanted <= locked.keys()
    assert {name for name, block in locked.items() if pin(block) != pin(tested[name])} == set()
    for dockerfile in (ROOT / "Dockerfile", FOLDER / "agent.Dockerfile"):
        assert "--require-hashes -r requirements-agent-snmp.txt" in dockerfile.read_text(), dockerfile


def test_the_agents_requirements_are_complete_and_minimal() -> None:
    needed: set[str] = set()
    unresolved = [Requirement(line) for line in (FOLDER / "requirements-agent.in").read_text().split()]
    while unresolved:
        next_requirement = unresolved.pop()
        extras = {"", *next_requirement.extras}
        needed.add(canonicalize_name(next_requirement.name))
        for line in metadata.requires(next_requirement.name) or []:
            requirement = Requirement(line)
            if not requirement.extras and canonicalize_name(requirement.name) in needed:
                continue
            marker = requirement.marker
            if marker is None or any(marker.evaluate({**default_environment(), "extra": extra}) for extra in extras):
                unresolved.append(requirement)

    elsewhere = {name for name, (block, *_) in AGENT.items() if ";" in block.splitlines()[0]}
    assert needed <= AGENT.keys()
    assert AGENT.keys() - needed <= elsewhere


@pytest.fixture
def agent_packages(tmp_path: Path) -> Path:
    """A folder with the packages of the agent's requirements and no other."""
    for name in AGENT:
        try:
            files = metadata.distribution(name).files or []
        except metadata.PackageNotFoundError:  # of another system or Python
            continue
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            link = tmp_path / top
            if not link.exists():
                link.symlink_to(metadata.distribution(name).locate_file(top))
    return tmp_path


AS_THE_AGENT_STARTS = """
import importlib, pkgutil
import probes
for module in pkgutil.walk_packages(probes.__path__, "probes."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
from celery import Celery
from probes.site.runner import local_queue
app = Celery(broker=local_queue.URL)
app.connection_for_read().transport
app.Worker(pool="threads", quiet=True)
"""


def test_the_agent_starts_with_its_requirements_alone(agent_packages: Path) -> None:
    """Kombu, for example, imports a transport and its dependencies only when it connects."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": f"{agent_packages}:{ROOT}"}

    done = subprocess.run(
        [sys.executable, "-S", "-c", AS_THE_AGENT_STARTS],
        cwd=agent_packages,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr


def test_every_module_that_probes_imports_is_a_requirement() -> None:
    """Run in an interpreter that imports every entry point of the agent."""
    modules = ["worker", "command", "join", "status", "doctor.run", "limits.command"]
    code = f"import sys, {', '.join(f'probes.site.{name}' for name in modules)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    by_module = metadata.packages_distributions()
    distributions = {canonicalize_name(name) for module in loaded for name in by_module.get(module, [])}

    # Celery, Kombu and Billiard import these if installed; the agent does not need them.
    assert distributions - AGENT.keys() <= {"brotli", "cffi", "django", "greenlet", "pyyaml", "setuptools"}


# --- the agent in containers elsewhere


def test_the_compose_file_of_a_remote_agent_has_no_privileges() -> None:
    (agent,) = yaml.safe_load((FOLDER / "agent.compose.yml").read_text())["services"].values()

    assert (agent["read_only"], agent["cap_drop"]) == (True, ["ALL"])
    assert agent["security_opt"] == ["no-new-privileges:true"]
    assert min(agent["pids_limit"], agent["cpu_shares"]) > 0
    assert parse(agent["command"][1:]).limits == Path("/etc/soundings/limits.toml")
    assert (FOLDER / agent["build"]["context"] / agent["build"]["dockerfile"]).exists()
    first, _ = map(int, agent["sysctls"]["net.ipv4.ping_group_range"].split())
    assert first == 0
