"""The wheels with their dependencies from a package index, each in an environment of its own: the centre with its lab,
and an agent that joins a centre. `make test-install` runs it.
"""

import os
import re
import signal
import subprocess
import sys

import pytest

from scripts import dist
from tests.e2e.stack import running_stack, wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

MESH = """
[mesh]
name = "two"
home = "here"

[[site]]
name = "here"
title = "Here"
latitude_deg = 47.0
longitude_deg = 7.0
country = "CH"
[[site.host]]
name = "here"
address = "127.78.1.1"

[[site]]
name = "there"
title = "There"
latitude_deg = 48.0
longitude_deg = 8.0
country = "DE"
[[site.host]]
name = "there"
address = "127.78.2.1"

[[test]]
name = "ping"
kind = "ping"
every_s = 15
count = 5

[[group]]
name = "all"
shape = "mesh"
sites = ["here", "there"]
tests = ["ping"]
"""


@pytest.fixture(scope="module")
def environments(tmp_path_factory):
    """The folders of programs of an installed whole and of an installed agent."""
    files = dist.main(tmp_path_factory.mktemp("dist"))
    folders = []
    for wheel in files[1], files[3]:
        folder = tmp_path_factory.mktemp(wheel.name.split("-")[0]) / "venv"
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", "--no-compile", str(wheel)], check=True)
        folders.append(folder / "bin")
    return folders


def agent(programs, *arguments, **options):
    command = [str(programs / "soundings-agent"), *arguments]
    return subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=60, check=False, **options)


def all_measured(stack, paths):
    """Whether the centre has recent packets of so many paths, which are all there are."""
    state = stack.get("state")
    return state["paths"] == paths and not state["awaited"] and not state["without_data"]


def test_the_agents_environment_has_neither_django_nor_charts(environments):
    listed = subprocess.run(
        [str(environments[1] / "python"), "-m", "pip", "list", "--format=freeze"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.lower()

    assert not re.search(r"^(django|altair|psycopg|scipy|gunicorn)", listed, re.MULTILINE)
    assert "soundings-agent==" in listed


@pytest.mark.skipif(os.geteuid() != 0, reason="the lab needs namespaces")
def test_the_installed_centre_runs_its_lab(environments):
    with running_stack("--lab", "three-sites", installed=environments[0]) as stack:
        wait_for(lambda: all_measured(stack, 6), 180, "the paths of the lab are measured")

        assert "soundings-agent lab set" in stack.output
        stack.lab("status")


def test_an_installed_agent_joins_an_installed_centre(environments, tmp_path):
    mesh = tmp_path / "mesh.toml"
    mesh.write_text(MESH)
    data = tmp_path / "there"
    data.mkdir()
    limits = data / "limits.toml"
    limits.write_text('[networks]\nallowed = ["127.78.0.0/16"]\n')  # by default no agent measures to loopback
    with running_stack("--mesh", str(mesh), "--limits", str(limits), installed=environments[0]) as stack:
        command = stack.manage("site", "enrol", "there", "--url", f"http://127.0.0.1:{stack.port}").splitlines()[0]
        assert command.startswith("soundings-agent join http://127.0.0.1:")
        joined = agent(environments[1], *command.split()[1:], "--data", str(data))
        assert joined.returncode == 0, joined.stderr
        running = subprocess.Popen([str(environments[1] / "soundings-agent"), "run", "--data", str(data)], cwd="/")
        try:
            wait_for(lambda: all_measured(stack, 2), 180, "both directions are measured")
            status = ("status", "--data", str(data))
            wait_for(lambda: agent(environments[1], *status).returncode == 0, 60, "the status is good")
        finally:
            running.send_signal(signal.SIGINT)
            running.wait(timeout=60)
