"""No secret of a running stack, nor any given to a process, is in a log, a command line or a page."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.e2e.centre import free_port
from tests.e2e.stack import TOP, wait_for

PASSWORD = "hunter2-of-soundings"


def command_lines(pids):
    lines = []
    for pid in pids:
        with contextlib.suppress(OSError):
            lines.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return "\n".join(lines)


@pytest.mark.timeout(600)
def test_the_secrets_of_a_running_stack_cannot_be_read(lab):
    """A lab whose agents measure, deliver and test throughput; queried with valid and invalid tokens, and with failing
    requests."""
    site_token = (lab.data / "sites" / "rome" / "token").read_text().strip()
    user_token = _add_user(lab)
    secrets = [site_token, user_token, PASSWORD, (lab.data / "secret_key").read_text().strip()]
    visible, keys = set(), set()
    pages = []

    def measured():
        visible.add(command_lines(lab.processes()))
        keys.update(re.findall(r'"one_time_key":"([^"]+)"', _plans(lab)))
        cells = lab.get("grid?metric=throughput_median_bps&period=hour")["cells"]
        has_run = any("iperf3" in lines for lines in visible)
        return has_run and [cell for cell in cells if cell["value"] is not None]

    wait_for(measured, 300, "a throughput test was running, and another was measured")
    for path, token in (
        ("api/v1/sites", user_token),
        ("api/agent/plan", "x" + site_token),
        ("paths/0/", user_token),
    ):
        request = urllib.request.Request(
            f"http://127.0.0.1:{lab.port}/{path}", headers={"Authorization": f"Bearer {token}"}
        )
        try:
            pages.append(urllib.request.urlopen(request, timeout=30).read().decode())
        except urllib.error.HTTPError as error:
            pages.append(error.read().decode())
    written = lab.output + _logs(lab)

    assert keys
    for secret in (*secrets, *keys):
        assert secret not in written
        assert all(secret not in lines for lines in visible)
        assert all(secret not in page for page in pages)


def _add_user(stack):
    environment = {**os.environ, "SOUNDINGS_DATABASE_URL": stack.database_url, "SOUNDINGS_DATA": str(stack.data)}
    command = [sys.executable, "manage.py", "user", "add", "ada", "--role", "viewer"]
    subprocess.run(command, cwd=TOP, env=environment, input=PASSWORD, text=True, check=True, capture_output=True)
    return stack.manage("user", "token", "ada").strip()


def _logs(stack):
    return "\n".join(path.read_text(errors="replace") for path in stack.data.glob("**/*.log"))


def _plans(stack):
    return "".join(path.read_text() for path in stack.data.glob("sites/*/plan.json"))


@pytest.mark.parametrize("server", ["web", "worker", "beat"])
def test_passwords_of_database_and_redis_are_not_in_errors(tmp_path, server):
    """Both addresses are wrong, so that each process reports its error."""
    environment = {
        **os.environ,
        "SOUNDINGS_DATABASE_URL": f"postgresql://soundings:{PASSWORD}@127.0.0.1:1/soundings",
        "SOUNDINGS_REDIS_URL": f"redis://:{PASSWORD}@127.0.0.1:1/0",
        "SOUNDINGS_SECRET_KEY": PASSWORD * 3,
        "SOUNDINGS_DATA": str(tmp_path),
    }
    port = free_port()
    celery = ["celery", "-A", "monitor"]
    arguments = {
        "web": ["gunicorn", "--config", "python:monitor.stack.serving", "--bind", f"127.0.0.1:{port}"],
        "worker": [*celery, "worker", "--concurrency=1", "--loglevel=INFO"],
        "beat": [*celery, "beat", "--schedule", str(tmp_path / "schedule"), "--loglevel=INFO"],
    }[server]
    words = {"web": "Listening at", "worker": "Cannot connect to redis", "beat": "the database is away"}[server]
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments], cwd=TOP, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        wait_for(lambda: words in log.read_text() or process.poll() is not None, 60, f"{server} says {words}")
        if server == "web":
            plan = f"http://127.0.0.1:{port}/api/agent/plan"
            request = urllib.request.Request(plan, headers={"Authorization": "Bearer x"})
            with pytest.raises(urllib.error.HTTPError) as error:
                urllib.request.urlopen(request, timeout=30)
            page = error.value.read().decode()
            assert "try again" in page
            assert PASSWORD not in page
        assert PASSWORD not in command_lines([process.pid])
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)

    assert words in log.read_text()
    assert PASSWORD not in log.read_text()
