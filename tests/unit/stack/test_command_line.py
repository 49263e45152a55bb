"""`manage.py` and `python -m probes`: the list of commands, refused commands, and ends without a traceback."""

import errno
import gc
import io
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stdout

import pytest

from monitor import __main__, command_line
from monitor.command_line import REFUSED, SoundingsCommands
from probes.commands.ending import permission_text, read_text, without_traceback
from tests.facts import lacks

OURS = ["alerts", "archive", "database", "estimate", "mesh", "migrate", "report", "site", "throughput", "up", "user"]


def printed(*arguments):
    out = io.StringIO()
    with redirect_stdout(out):
        SoundingsCommands(["manage.py", *arguments]).execute()
    return out.getvalue()


@pytest.mark.parametrize("arguments", [(), ("help",), ("--help",)])
def test_manage_lists_our_commands_first_with_a_line_each(arguments):
    lines = printed(*arguments).splitlines()
    ours = lines[lines.index("Soundings") + 1 : lines.index("", lines.index("Soundings"))]

    assert set(OURS) <= {line.split()[0] for line in ours}
    assert [line for line in ours if len(line.split()) < 3] == []
    assert max(map(len, lines)) <= 80


def test_manage_lists_no_command_that_it_refuses():
    assert not set(printed("help", "--commands").split()) & REFUSED.keys()
    assert lacks(printed(), "changepassword", "shell", "makemigrations") == []


@pytest.mark.parametrize(("name", "fact"), [("flush", "delete all measurements"), ("testserver", "up --lab")])
def test_a_harmful_command_is_refused_with_the_reason(name, fact, capsys):
    with pytest.raises(SystemExit) as raised:
        SoundingsCommands(["manage.py", name, "--noinput"]).execute()

    assert raised.value.code == 1
    assert lacks(capsys.readouterr().err, f"manage.py {name} is disabled", fact) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("archive", "status", "--js"),
        ("mesh", "check", "x.toml", "--js"),
        ("estimate", "--rtt", "5"),
        ("migrate", "--fa"),
    ],
)
def test_an_abbreviated_option_of_manage_is_a_usage_error(arguments, capsys):
    with pytest.raises(SystemExit) as raised:
        SoundingsCommands(["manage.py", *arguments]).execute()

    assert raised.value.code == 2
    assert lacks(capsys.readouterr().err, "error:") == []


def test_a_missing_permission_names_the_folder_owner_and_fix(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()

    inside = permission_text(PermissionError(13, "Permission denied", str(folder / "missing" / "token")))

    assert lacks(inside, str(folder), "permission", "chmod") == []
    assert lacks(permission_text(PermissionError(1, "Operation not permitted")), "not permitted", "root") == []


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root to give a folder away")
@pytest.mark.parametrize(
    "arguments",
    [
        "site --data {0}/agent", "site status --data {0}/agent", "site doctor --data {0}/agent",
        "site join https://192.0.2.1 CODE --data {0}/agent", "site limits --data {0}/agent",
        "lab status --run-dir {0}/lab", "lab up --run-dir {0}/lab",
    ],
)  # fmt: skip
def test_a_folder_of_another_user_is_a_sentence(arguments, tmp_path):
    foreign = tmp_path / "foreign"
    foreign.mkdir(mode=0o700)
    os.chown(foreign, 65534, 65534)

    ordinary = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", sys.executable, "-m", "probes"]
    done = subprocess.run(
        [*ordinary, *arguments.format(foreign).split()],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 1
    assert lacks(done.stderr, str(foreign), "no permission", "belongs to", "run it as") == []
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("raised", "status"),
    [(PermissionError(13, "Permission denied", "/root/x"), 1), (KeyboardInterrupt(), 130)],
)
def test_a_command_that_cannot_go_on_ends_in_a_sentence(raised, status, capsys):
    with pytest.raises(SystemExit) as ended, without_traceback("lab"):
        raise raised

    error = capsys.readouterr().err
    assert ended.value.code == status
    assert error.startswith("lab: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize(("no_color", "is_coloured"), [("", True), ("1", False)])
def test_no_color_turns_off_the_colours_of_manage(no_color, is_coloured):
    terminal, end = os.openpty()
    environment = {**os.environ, "NO_COLOR": no_color, "TERM": "xterm"}
    subprocess.run([sys.executable, "manage.py", "help"], stdout=end, env=environment, check=True)
    os.close(end)

    with os.fdopen(terminal, "rb", buffering=0) as shown:
        assert (b"\x1b[" in shown.read(4000)) == is_coloured


def test_a_closed_pipe_ends_a_command_without_a_message():
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "probes", "lab", "mesh"],
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert (done.returncode, done.stderr) == (1, "")


def test_a_missing_package_is_a_sentence() -> None:
    # Without the packages of the environment, as with the system's Python.
    done = subprocess.run([sys.executable, "-S", "-m", "probes", "ping"], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert lacks(done.stderr, "probes: msgspec", "make setup", ".venv/bin/python -m probes") == []
    assert "Traceback" not in done.stderr


def test_a_command_is_loaded_without_searches_for_garbage(monkeypatch):
    collecting = []
    monkeypatch.setattr(command_line, "main", lambda _: collecting.append(gc.isenabled()))
    try:
        __main__.main()
        printed("completion", "bash")
        collecting.append(gc.isenabled())
    finally:
        gc.enable()

    assert collecting == [False, True]


def test_processes_without_django_do_without_celery():
    code = (
        "import sys, django, monitor.alerts.notify.sender, monitor.archive.diagnosis.capture_process\n"
        "print('celery' in sys.modules)\n"
        "django.setup()\n"
        "import celery\n"
        "print(celery.current_app.main)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines() == ["False", "soundings"]


@pytest.mark.parametrize(("name", "own"), [("estimate", "--rtt-ms"), ("mesh", "check")])
def test_help_of_our_commands_lacks_options_of_django(name, own):
    command = SoundingsCommands(["manage.py"]).fetch_command(name)

    text = command.create_parser("manage.py", name).format_help()

    assert own in text
    assert [option for option in ("--settings", "--pythonpath", "--traceback", "--verbosity") if option in text] == []


@pytest.mark.parametrize("typed", ["/a/b", "--out=/a/b", "/a"])
def test_a_file_that_the_user_named_ends_in_a_sentence(typed, capsys):
    with pytest.raises(SystemExit) as ended, without_traceback("lab", [typed]):
        raise OSError(errno.ENAMETOOLONG, "File name too long", "/a/b")

    assert ended.value.code == 1
    assert lacks(capsys.readouterr().err, "lab: /a/b: File name too long; give another") == []


@pytest.mark.parametrize(
    "bug",
    [FileNotFoundError(2, "No such file", "/c"), OSError("no"), KeyError("a"), UnicodeDecodeError("a", b"", 0, 1, "")],
)
def test_a_programming_error_stays_a_traceback(bug):
    with pytest.raises(type(bug)), without_traceback("lab", ["/a/b", "a"]):
        raise bug


@pytest.mark.parametrize(("content", "reason"), [(b"\xff", "not UTF-8"), (bytes(2_000_000), "more than 1 MB")])
def test_a_small_text_file_is_refused_with_its_name(content, reason, tmp_path):
    (tmp_path / "url").write_bytes(content)

    with pytest.raises(OSError, match=reason) as raised:
        read_text(tmp_path / "url")
    assert raised.value.filename == str(tmp_path / "url")
