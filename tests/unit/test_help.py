"""Each command and subcommand has a description: its `--help` begins with a sentence."""

import argparse
import importlib

import pytest
from django.core.management import get_commands, load_command_class

from probes.__main__ import main
from probes.commands.catalogue import COMMANDS
from probes.commands.subcommands import add_subcommand
from tests.facts import lacks

DJANGO = sorted((app, name) for name, app in get_commands().items() if app.startswith("monitor") and name != "migrate")


def subparsers(parser):
    """The parser and those of all its subcommands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for subparser in action.choices.values():
                yield from subparsers(subparser)


def probes_parser(name):
    module, summary = COMMANDS[name]
    parser = add_subcommand(argparse.ArgumentParser(prog="python -m probes").add_subparsers(), name, summary)
    importlib.import_module(module).add_arguments(parser)
    return parser


def incomplete(parsers):
    """Programs whose help has no sentence, and options without a description."""
    for parser in parsers:
        text = parser.description or ""
        if not (text[:1].isupper() and text.endswith(".") and " " in text):
            yield parser.prog
        yield from (
            f"{parser.prog} {action.dest}"
            for action in parser._actions
            if action.help is None and not isinstance(action, argparse._SubParsersAction)
        )


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_of_probes_begins_with_a_sentence(name):
    assert list(incomplete(subparsers(probes_parser(name)))) == []


@pytest.mark.parametrize(("app", "name"), DJANGO)
def test_each_command_of_manage_begins_with_a_sentence(app, name):
    parser = load_command_class(app, name).create_parser("manage.py", name)

    assert list(incomplete(subparsers(parser))) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_of_probes_refuses_abbreviations(name):
    assert [parser.prog for parser in subparsers(probes_parser(name)) if parser.allow_abbrev] == []


@pytest.mark.parametrize(
    "arguments",
    [["ping", "127.0.0.1", "--cou", "1"], ["lab", "set", "a-b", "--los", "0.1"], ["site", "status", "--js"]],
)
def test_an_abbreviated_option_of_probes_is_a_usage_error(arguments, capsys):
    with pytest.raises(SystemExit) as raised:
        main(arguments)

    assert raised.value.code == 2
    assert "unrecognized arguments: --" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "option", "program"),
    [(["lab", "status", "--jsn"], "--json", "lab status"), (["ping", "a", "--cuont", "3"], "--count", "ping")],
)
def test_an_unknown_option_is_told_with_its_command_and_a_guess(arguments, option, program, capsys):
    with pytest.raises(SystemExit) as raised:
        main(arguments)

    assert raised.value.code == 2
    assert lacks(capsys.readouterr().err, f"usage: python -m probes {program} ", f"did you mean {option}?") == []


def test_an_unknown_option_of_manage_is_told_with_its_command(capsys):
    command = load_command_class("monitor.stack", "site")
    command._called_from_command_line = True
    parser = command.create_parser("manage.py", "site")

    with pytest.raises(SystemExit) as raised:
        parser.parse_args(["list", "--jsn"])

    assert raised.value.code == 2
    assert lacks(capsys.readouterr().err, "usage: manage.py site list ", "did you mean --json?") == []


def test_probes_alone_lists_the_commands(capsys):
    assert main([]) == 2

    listed = capsys.readouterr().err.split()
    assert [name for name in COMMANDS if name not in listed] == []


def test_the_help_ends_with_the_exit_status():
    doctor = next(parser for parser in subparsers(probes_parser("site")) if parser.prog.endswith("doctor"))

    assert doctor.epilog.startswith("Exit status: 0 ")
    assert lacks(doctor.epilog, " 0 ", "checks pass", ", 1 ") == []
