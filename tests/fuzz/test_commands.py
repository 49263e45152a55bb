"""Command lines with odd values for each argument: exit status 0, 1 or 2 with a sentence, never a traceback."""

import argparse
import contextlib
import io
import os
import sys
from unittest.mock import patch

import pytest
from django.core.management import get_commands
from django.core.management.base import CommandError

from monitor import command_line
from probes.__main__ import main as probes_main
from probes.commands.catalogue import parsers as probes_parsers
from tests.fuzz.cases import cases

OURS = sorted(name for name, app in get_commands().items() if app.startswith("monitor"))
WITHOUT_STACK = (
    ("manage.py", "completion"), ("manage.py", "estimate"), ("manage.py", "mesh", "check"),
    ("manage.py", "throughput", "packets"), ("manage.py", "database"), ("manage.py", "alerts", "backtest"),
)  # fmt: skip
"""Beginnings of the command lines that are run and not only parsed."""
HELP = (argparse._HelpAction, argparse._VersionAction)
NUMBERS = (
    "0",
    "-1",
    "1",
    "7",
    "0.5",
    "1e9",
    "1e400",
    "nan",
    "-inf",
    "9" * 16,
    "9" * 20,
    "9" * 5000,
    "٣",
    "1_0",
    "0x10",
)
TEXTS = ("", " ", "-", "--", "x", "x=y", "é" * 300, "\udcff", "a\nb", "%s", "{}", "../..", "99999999", "x" * 70_000)
TIMES = ("2026-03-14", "0001-01-01", "9999-12-31T23:59", "2026-W01", "2026-03-14T12:00+25:00", "0001-01-01T00:00+14:00")


@pytest.fixture
def odd_values(tmp_path, monkeypatch):
    """Values that a user may type, with files of each kind."""
    monkeypatch.chdir(tmp_path)
    # The release of a database is asked before commands that write; here is none.
    monkeypatch.setattr(command_line, "require_no_later_release", lambda: None)
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    (tmp_path / "nothing").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    files = ("binary", "nothing", "folder", "loop", "missing", "nothing/below", "loop/below", "binary/" + "é" * 300)
    # Django's --settings and --pythonpath change both for the whole process.
    monkeypatch.setattr(sys, "path", [*sys.path])
    with patch.dict(os.environ):
        yield (*NUMBERS, *TEXTS, *TIMES, *files)


def _lines(parser, words):
    """Each command line of a parser that ends with an action, with the parser that reads its end."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for action in below:
        for name, subparser in action.choices.items():
            yield from _lines(subparser, (*words, name))
    if not below:
        yield words, parser


def _manage_lines():
    utility = command_line.SoundingsCommands(["manage.py"])
    for name in OURS:
        yield from _lines(utility.fetch_command(name).create_parser("manage.py", name), ("manage.py", name))


def _probes_lines():
    for name, parser in probes_parsers().items():
        yield from _lines(parser, ("probes", name))


def _typed(parser, values, chance):
    """A value for each argument that is required, and for one or two more; half of those with choices are valid."""
    actions = [action for action in parser._actions if not isinstance(action, HELP)]
    needed = [action for action in actions if action.required]
    more = chance.sample(actions, min(len(actions), chance.randint(0, 2)))
    for action in dict.fromkeys([*needed, *more]):
        yield from action.option_strings[-1:]
        if action.nargs != 0:
            choices = [str(choice) for choice in action.choices or ()]
            yield chance.choice(choices if choices and chance.random() < 0.5 else values)


def _ended(run, label):
    """Exit status of a command line; its output has no traceback, and a failure a sentence."""
    with contextlib.redirect_stderr(io.StringIO()) as errors, contextlib.redirect_stdout(io.StringIO()) as output:
        try:
            status = run() or 0
        except SystemExit as ended:
            status = ended.code or 0
        except Exception as error:
            raise AssertionError(f"{label}: {error!r}") from error
    if isinstance(status, str):
        errors.write(status)
        status = 1
    assert status in (0, 1, 2), (label, status)
    assert status == 0 or " " in errors.getvalue() + output.getvalue(), label
    assert "Traceback" not in errors.getvalue(), label
    return status


def test_odd_command_lines_end_with_a_sentence(odd_values):
    lines = [*_manage_lines(), *_probes_lines()]
    statuses = set()
    for label, chance in cases("commands"):
        words, parser = chance.choice(lines)
        typed = [*_typed(parser, odd_values, chance)]
        statuses.add(_ended(lambda parser=parser, typed=typed: _parse(parser, typed), (label, words, typed)))
    assert statuses == {0, 2}


def _parse(parser, typed):
    try:
        parser.parse_args(typed)
    except CommandError as error:
        # As Django's parser ends outside of its own command line.
        print(error, file=sys.stderr)
        raise SystemExit(2) from error


def test_odd_command_lines_without_a_stack_are_run(odd_values):
    lines = [line for line in _manage_lines() if any(line[0][: len(begin)] == begin for begin in WITHOUT_STACK)]
    statuses = set()
    for label, chance in cases("run commands"):
        words, parser = chance.choice(lines)
        typed = [*words, *_typed(parser, odd_values, chance)]
        statuses.add(_ended(lambda typed=typed: command_line.main(typed), (label, typed)))
    assert statuses == {0, 1, 2}


@pytest.mark.parametrize(
    "typed",
    [
        "check 99999999",
        "database standby --superuser-url-file binary --folder s",
        "archive restore " + "é" * 300,
        "archive restore loop/below",
        "throughput aggregates --most 99999999999999999999 --json",
        "throughput aggregates --days 99999999 --json",
        "archive recompute --from 2026-01-01 --to 2026-01-02 --path 99999999999999999999",
        "user remove " + os.fsdecode(b"\xff"),
    ],
)
def test_what_cannot_be_used_is_refused_with_a_sentence(typed, odd_values):
    assert _ended(lambda: command_line.main(["manage.py", *typed.split(" ")]), typed) in (1, 2)


def test_text_that_is_not_utf8_is_refused_by_probes_too():
    assert _ended(lambda: probes_main(["ping", os.fsdecode(b"\xff")]), "probes ping") == 2
