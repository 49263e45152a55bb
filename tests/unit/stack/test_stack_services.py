"""Which servers `manage.py up` does not start itself, and how it runs commands."""

import io
import os
import signal
import socket
import subprocess
import sys

import django
import pytest
from django.core.management import call_command

from monitor.stack import services
from monitor.stack.services import Stack
from probes.supervision.supervise import StartError


@pytest.fixture
def messages():
    return []


@pytest.fixture
def stack(tmp_path, messages):
    return Stack.in_folder(tmp_path, 0, messages.append)


def test_the_redis_url_may_come_from_a_file(stack, messages, tmp_path, monkeypatch):
    (tmp_path / "redis_url").write_text("redis://:hunter2@redis.example:6379/0")
    monkeypatch.setenv("SOUNDINGS_REDIS_URL_FILE", str(tmp_path / "redis_url"))

    stack.start_broker()

    [line] = messages
    assert line.split() == ["redis", "as", "set", "in", "SOUNDINGS_REDIS_URL"]
    assert "SOUNDINGS_REDIS_URL" not in stack.environment


def test_the_database_url_may_come_from_a_file(stack, messages, tmp_path, monkeypatch):
    (tmp_path / "database_url").write_text("postgresql://soundings:hunter2@database.example/soundings")
    monkeypatch.setenv("SOUNDINGS_DATABASE_URL_FILE", str(tmp_path / "database_url"))
    monkeypatch.delenv("SOUNDINGS_DATABASE_URL", raising=False)
    monkeypatch.setattr(Stack, "manage", lambda stack, *arguments, **options: None)

    stack.start_database()

    assert [line.split()[0] for line in messages] == ["postgres", "schema"]
    assert "as set in SOUNDINGS_DATABASE_URL" in messages[0]
    assert "SOUNDINGS_DATABASE_URL" not in stack.environment


def test_a_failing_command_is_reported_with_its_output(stack):
    with pytest.raises(StartError, match=r"manage.py nonsense: .*nonsense"):
        stack.manage("nonsense")


def test_a_long_command_is_reported_while_it_runs(stack, messages, monkeypatch):
    monkeypatch.setattr(services, "REPORT_WAIT_EVERY_S", 0.2)

    stack.manage("version")

    assert any("manage.py version runs for" in line and "load" in line for line in messages)


def test_the_output_of_a_command_is_shown_where_it_matters(stack, capfd):
    stack.manage("version")
    unseen = capfd.readouterr().out
    stack.manage("version", shows_output=True)

    assert (unseen, capfd.readouterr().out.strip()) == ("", django.__version__)


def test_links_have_the_port_of_up(tmp_path, monkeypatch):
    monkeypatch.delenv("SOUNDINGS_PUBLIC_URL", raising=False)
    for step in ("start_database", "start_broker", "start_centre"):
        monkeypatch.setattr(Stack, step, lambda stack: None)
    monkeypatch.setattr(Stack, "home_site", lambda stack: None)
    monkeypatch.setattr(services.Supervisor, "run_until", lambda supervisor, stop: None)
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    monkeypatch.setattr(os, "umask", lambda mask: mask)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    said = io.StringIO()
    call_command("up", data=tmp_path, port=port, stdout=said)

    assert "first start" in said.getvalue().splitlines()[0]
    code = "from monitor import settings; print(settings.PUBLIC_URL, settings.SERVED_URL)"
    environment = {**os.environ, "SOUNDINGS_DATA": str(tmp_path)}
    output = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert output.stdout.split() == [f"http://127.0.0.1:{port}"] * 2


@pytest.mark.parametrize(
    ("bind", "places", "allows_plain_http"),
    [
        ("127.0.0.1", ["127.0.0.1:8000"], "1"),
        ("192.0.2.7", ["127.0.0.1:8000", "192.0.2.7:8000"], "0"),
        ("2001:db8::7", ["127.0.0.1:8000", "[2001:db8::7]:8000"], "0"),
        ("0.0.0.0", ["0.0.0.0:8000"], "0"),
    ],
)
def test_another_address_is_served_without_plain_http(tmp_path, monkeypatch, bind, places, allows_plain_http):
    monkeypatch.delenv("SOUNDINGS_ALLOW_PLAIN_HTTP", raising=False)
    stack = Stack.in_folder(tmp_path, 8000, print, bind=bind)

    words = stack._gunicorn()

    binds = [words[index + 1] for index, word in enumerate(words) if word == "--bind"]
    assert binds == [*places, f"unix:{stack.web_socket}"]
    assert stack.environment["SOUNDINGS_ALLOW_PLAIN_HTTP"] == allows_plain_http


def test_an_address_of_another_machine_is_reported():
    with pytest.raises(StartError, match=r"192\.0\.2\.77 .*--bind"):
        services.require_free_port(0, "192.0.2.77")


def test_links_have_the_address_of_the_setting_as_it_is_given(tmp_path):
    (tmp_path / "web_url").write_text("http://127.0.0.1:8000")
    given = {"SOUNDINGS_DATA": str(tmp_path), "SOUNDINGS_PUBLIC_URL": "http://localhost:8123/"}
    code = "from monitor import settings; print(settings.PUBLIC_URL)"

    environment = {**os.environ, **given}
    shown = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)

    assert shown.stdout.strip() == "http://localhost:8123"
