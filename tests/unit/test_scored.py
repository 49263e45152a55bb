"""The runner of scores, and the places of their tables and commands in docs."""

import re
import shlex
from types import SimpleNamespace

import pytest

from tests.reproduce.table import Table, placed
from tests.scored import __main__ as runner
from tests.scored import count_of
from tests.scored.__main__ import DOCS, SCORES, ScoreModule, main, parsed

COMMANDS = sorted(
    {
        command
        for page in DOCS.rglob("*.md")
        for command in re.findall(r"`python -m tests\.scored ([^`]+)`", page.read_text())
    }
)


@pytest.mark.parametrize("name", [name for name, score in SCORES.items() if score.page])
def test_the_page_has_a_place_for_each_part(name):
    for part in parsed([name])["parts"]:
        placed((DOCS / SCORES[name].page).read_text(), part, "")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_in_docs_are_understood(command):
    assert parsed(shlex.split(command))["parts"]


@pytest.fixture
def page(monkeypatch, tmp_path):
    """The page of a score with two parts; the second fails."""
    parts = {
        "whole": lambda share, seed: Table(("share", "seed"), [(str(share), str(seed))]),
        "late": lambda share, seed: Table(("runs",), [(str(count_of(10, share)),)], ["too late"]),
    }
    module = SimpleNamespace(PARTS=parts, OPTIONS={"--seed": {"type": int, "default": 7}})
    monkeypatch.setattr(runner.importlib, "import_module", {"tests.toy": module}.__getitem__)
    monkeypatch.setattr(runner, "SCORES", {"toy": ScoreModule("tests.toy", "toy.md")})
    monkeypatch.setattr(runner, "DOCS", tmp_path)
    path = tmp_path / "toy.md"
    path.write_text("<!-- whole -->\n<!-- /whole -->\n<!-- late -->\n<!-- /late -->\n")
    return path


def test_a_table_is_printed_and_written_in_its_place(page, capsys):
    assert main(["toy", "whole", "--share", "0.5", "--seed", "3", "--write"]) == 0

    table = "| share | seed |\n| --- | --- |\n| 0.5 | 3 |\n"
    assert capsys.readouterr().out == f"\nwhole, 0 s\n\n{table}"
    assert page.read_text() == f"<!-- whole -->\n\n{table}\n<!-- /whole -->\n<!-- late -->\n<!-- /late -->\n"


def test_a_failure_of_any_part_fails_the_run(page, capsys):
    before = page.read_text()

    assert main(["toy", "--share", "0.01"]) == 1

    printed = capsys.readouterr()
    assert "| 0.01 | 7 |" in printed.out
    assert "| 1 |" in printed.out
    assert printed.err == "late: too late\n"
    assert page.read_text() == before


def test_names_are_listed_and_unknown_parts_refused(page, capsys):
    assert main([]) == 0
    assert capsys.readouterr().out == "toy\n"
    assert main(["other"]) == 2
    with pytest.raises(SystemExit, match="2"):
        main(["toy", "early"])
    assert "there is no part early: write whole, late" in capsys.readouterr().err
