"""`manage.py up` in the situations of a new user: no namespaces, own sites, a second start, a folder in use."""

from __future__ import annotations

import socket
import subprocess
import sys
import time

import pytest

from tests.e2e.stack import TOP, running_stack, wait_for

NO_TUN = ["unshare", "--mount", "sh", "-c", 'mount --bind /dev/null /dev/net/tun && exec "$@"', "sh"]
OWN_SITES = """
[mesh]
name = "Ours"
home = "here"

[[site]]
name = "here"
title = "Here"
latitude_deg = 46.2
longitude_deg = 6.1
country = "CH"
region = "Europe"
[[site.host]]
address = "127.77.1.1"

[[site]]
name = "there"
title = "There"
latitude_deg = 45.8
longitude_deg = 4.8
country = "FR"
region = "Europe"
agent = false
[[site.host]]
address = "127.77.2.1"

[[test]]
name = "pinger"
kind = "ping"
every_s = 10
count = 5
spacing_s = 0.2
timeout_s = 1.0

[[group]]
name = "all"
shape = "mesh"
sites = ["here", "there"]
tests = ["pinger"]
"""


def measured_cells(stack):
    """The grid's cells that have a figure."""
    return [cell for cell in stack.get("grid?metric=rtt_median_ms&period=hour")["cells"] if cell["value"] is not None]


@pytest.mark.timeout(240)
def test_without_namespaces_the_sites_measure_on_loopback(root_required):
    with running_stack("--lab", "three-sites", prefix=NO_TUN) as stack:
        assert "no namespaces here (" in stack.output
        assert "without emulated delays" in stack.output

        cells_measured = wait_for(
            lambda: len(cells := measured_cells(stack)) == 6 and cells, 90, "all six paths are measured"
        )

    assert all(cell["value"] < 5 for cell in cells_measured)


@pytest.mark.timeout(240)
def test_own_sites_are_measured_from_home_and_remembered(tmp_path, root_required):
    mesh = tmp_path / "mesh.toml"
    mesh.write_text(OWN_SITES)
    limits = tmp_path / "limits.toml"
    limits.write_text('[networks]\nallowed = ["127.77.0.0/16"]\n')
    with running_stack("--mesh", str(mesh), "--limits", str(limits)) as stack:
        wait_for(lambda: len(measured_cells(stack)) == 1, 60, "the path from home is measured")
        stack.stop()

        assert stack.process.returncode == 0
        assert stack.processes() == []

        stack.arguments = ()
        started = time.monotonic()
        stack.start()
        ready_s = time.monotonic() - started
        newest = stack.get("grid?metric=rtt_median_ms&period=hour")["newest_measured_at"]
        wait_for(
            lambda: stack.get("grid?metric=rtt_median_ms&period=hour")["newest_measured_at"] not in (None, newest),
            60,
            f"a new result is on the page, which was up {ready_s:.0f} s after the second start",
        )
        assert [cell["source"] for cell in measured_cells(stack)] == ["here"]

        second = [sys.executable, "manage.py", "up", "--data", str(stack.data), "--port", "1"]
        done = subprocess.run(second, cwd=TOP, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert "Soundings runs there already" in done.stderr


def test_an_error_in_the_mesh_stops_the_start_with_its_line(tmp_path):
    mesh = tmp_path / "mesh.toml"
    line = 1 + OWN_SITES.splitlines().index('sites = ["here", "there"]')
    mesh.write_text(OWN_SITES.replace('sites = ["here", "there"]', 'sites = ["here", "ther"]'))
    command = [sys.executable, "manage.py", "up", "--data", str(tmp_path / "data"), "--mesh", str(mesh)]

    done = subprocess.run([*command, "--port", "0"], cwd=TOP, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert f'{mesh}:{line}: group "all": site "ther" is not defined (did you mean "there"?)' in done.stderr


def test_a_port_in_use_is_reported(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        command = [sys.executable, "manage.py", "up", "--data", str(tmp_path / "data"), "--port", port]

        done = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert f"port {port}: Address already in use; choose another with --port" in done.stderr
