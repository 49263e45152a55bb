"""Wheels of `make dist`, installed into environments of their own and run from there; dependencies come from this one.

`make test-install` installs from a package index, starts the whole and lets a second agent join.
"""

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import probes
from scripts import dist

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Source distribution and wheel of the whole, then those of the agent."""
    return dist.main(tmp_path_factory.mktemp("dist"))


def install(wheel, folder):
    """An environment with this wheel alone, which finds other packages where this Python has them."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", str(wheel)], check=True)
    checked = subprocess.run([*pip, "check"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout  # the wheel's requirements are met by what is pinned
    return folder


@pytest.fixture(scope="module")
def whole(built, tmp_path_factory):
    return install(built[1], tmp_path_factory.mktemp("whole") / "venv")


@pytest.fixture(scope="module")
def agent(built, tmp_path_factory):
    return install(built[3], tmp_path_factory.mktemp("agent") / "venv")


def run(environment, *argv, home="/nonexistent"):
    """Run an installed program, outside the clone."""
    return subprocess.run(
        [str(environment / "bin" / argv[0]), *argv[1:]],
        cwd="/", env={"PATH": "/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_the_wheels_hold_every_file_of_their_packages(built):
    tracked = subprocess.run(
        ["git", "ls-files", "probes", "monitor", "dashboards"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()

    assert sorted(set(tracked) - set(zipfile.ZipFile(built[1]).namelist())) == []
    of_agent = [name for name in zipfile.ZipFile(built[3]).namelist() if "/" in name and ".dist-info/" not in name]
    in_data = [name for name in of_agent if ".data/" in name]
    assert sorted(set(of_agent) - set(in_data)) == sorted(name for name in tracked if name.startswith("probes/"))
    assert {Path(name).name for name in in_data} == {"limits.example.toml", "soundings-agent.service"}


def test_the_source_distributions_hold_no_more_than_is_built_from_them(built):
    for archive in built[0], built[2]:
        with tarfile.open(archive) as packed:
            tops = {name.split("/")[1] for name in packed.getnames() if "/" in name}
        assert tops <= {
            "LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "dashboards", "limits.example.toml", "mesh.example.toml",
            "monitor", "packaging", "probes", "pyproject.toml", "requirements.in",
            "requirements-snmp.in", "setup.cfg",
            "soundings-agent.service", "soundings.egg-info", "soundings_agent.egg-info",
        }  # fmt: skip


def test_the_agents_requirements_are_those_of_its_image(built):
    with zipfile.ZipFile(built[3]) as wheel:
        (metadata,) = [name for name in wheel.namelist() if name.endswith("/METADATA")]
        required = re.findall(r"^Requires-Dist: (.+)$", wheel.read(metadata).decode(), re.MULTILINE)

    packaging = ROOT / "packaging"
    always = (packaging / "requirements-agent.in").read_text().split()
    assert [name for name in required if ";" not in name] == always
    for_snmp = (packaging / "requirements-agent-snmp.in").read_text().split()
    assert sorted(set(required) - set(always)) == sorted(f'{name}; extra == "snmp"' for name in for_snmp)


def test_the_agent_needs_no_package_of_the_centre(agent):
    # An environment without the others' packages would need a package index; the import contract says the same of code.
    (packages,) = agent.glob("lib/python3*/site-packages")

    assert not (packages / "monitor").exists()
    assert not (packages / "dashboards").exists()
    assert not (agent / "bin" / "soundings").exists()


def test_versions_are_that_of_the_program(whole, agent):
    for environment in whole, agent:
        assert run(environment, "soundings-agent", "--version").stdout == f"soundings-agent {probes.__version__}\n"
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["dynamic"]["version"] == {
        "attr": "probes.__version__"
    }


def test_the_installed_centre_reads_a_mesh(whole):
    checked = run(whole, "soundings", "mesh", "check", str(whole / "share" / "soundings" / "mesh.example.toml"))

    assert checked.returncode == 0, checked.stderr
    assert " OK: " in checked.stdout


def test_the_installed_agent_measures(agent):
    pinged = run(agent, "soundings-agent", "ping", "127.0.0.1", "-c", "1", "--json")

    assert pinged.returncode == 0, pinged.stderr
    assert "127.0.0.1" in pinged.stdout


def test_an_installed_agent_keeps_its_data_where_the_system_does(agent, tmp_path):
    said = json.loads(run(agent, "soundings-agent", "status", "--json", home=tmp_path).stdout)

    of_user = f"{tmp_path}/.local/share/soundings/agent"
    assert said["data"] == ("/var/lib/soundings-agent" if os.geteuid() == 0 else of_user)
    assert not (tmp_path / "data").exists()


def test_hints_name_the_installed_program(agent, tmp_path):
    refused = run(agent, "soundings-agent", "run", "--data", str(tmp_path / "agent"))

    assert refused.returncode == 1
    assert "python -m probes" not in refused.stderr
    doctor = run(agent, "soundings-agent", "doctor", "--data", str(tmp_path / "agent"))
    assert "join: soundings-agent join URL CODE" in doctor.stdout


def test_hints_of_the_centre_name_its_installed_program(whole):
    refused = run(whole, "soundings", "runserver")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "soundings runserver is disabled" in refused.stderr
    assert "run `soundings up`" in refused.stderr
    code = "from monitor.web.request.own_command import own_command; print(own_command(None))"
    shown = run(whole, "soundings", "shell", "--command", code)
    assert "{'manage': 'soundings'}" in shown.stdout


def test_no_page_names_the_program_of_a_clone(built):
    with zipfile.ZipFile(built[1]) as wheel:
        pages = [name for name in wheel.namelist() if name.endswith(".html")]
        assert pages
        assert [name for name in pages if b"manage.py" in wheel.read(name)] == []
