"""Links, paths, commands and names in the documents exist, and every picture is shown and can be reproduced."""

import importlib
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.screenshots.shots import IMAGES, MOST_BYTES, OF_LAB, OF_LARGE_MESHES

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
OPTIONS_OF_OTHERS = {
    *("--cap-drop", "--command", "--deploy-hook", "--detach", "--env-file", "--force-recreate", "--install"),
    *("--network", "--no-deps", "--now", "--platform", "--post-hook", "--pre-hook", "--privileged"),
    *("--project-directory", "--publish", "--push", "--read-only", "--require-hashes", "--requirement"),
    *("--restart", "--rm", "--standalone", "--tag", "--tmpfs", "--use", "--volume", "--volumes"),
}
"""Options of Docker, certbot, psql and systemctl in examples."""

TOP_FOLDERS = "dashboards|docs|monitor|packaging|probes|scripts|tests"

every_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


@every_document
def test_every_link_and_anchor_exists(document):
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", document.read_text()) if "://" not in link]

    assert [link for link in links if not _leads_somewhere(document, link)] == []


@every_document
def test_every_file_named_in_code_marks_exists(document):
    paths = re.findall(rf"`((?:{TOP_FOLDERS})/[\w./-]+)`", document.read_text())

    assert [path for path in paths if not (ROOT / path).exists()] == []


@every_document
def test_every_module_and_function_named_exists(document):
    names = re.findall(r"`((?:probes|monitor|tests)(?:\.\w+)+)(?:\(\))?`", document.read_text())

    assert [name for name in names if not _exists(name)] == []


@every_document
def test_every_command_and_make_target_exists(document):
    text = document.read_text()
    commands = re.findall(r"(?:manage\.py|(?:`|bin/|^[$#] )soundings) ([a-z]\w*)", text, re.MULTILINE)
    modules = re.findall(r"python3? -m ((?:probes|dashboards|tests)[\w.]*)", text)
    targets = re.findall(r"(?:`|^\$ )make ([a-z-]+)|^make ([a-z-]+) +#", text, re.MULTILINE)

    assert [command for command in commands if command not in _management_commands()] == []
    assert [module for module in modules if not _is_program(module.rstrip("."))] == []
    assert [
        "".join(target) for target in targets if f"\n{''.join(target)}:" not in (ROOT / "Makefile").read_text()
    ] == []


@every_document
def test_every_variable_named_is_read_somewhere(document):
    variables = set(re.findall(r"\b(?:SOUNDINGS|GRAFANA)_[A-Z0-9_]+[A-Z0-9]\b", document.read_text()))

    assert sorted(name for name in variables if name not in _words_of_the_tree()) == []


@every_document
def test_every_option_named_is_in_the_code(document):
    options = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", document.read_text()))

    assert sorted(options - _words_of_the_tree() - OPTIONS_OF_OTHERS) == []


@every_document
def test_no_entry_of_a_list_or_index_stands_twice(document):
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    beginnings = [
        Counter([*_keys_of_index(block), *re.findall(r"^(?:- |`).{40}", block, re.MULTILINE)])
        for block in text.split("\n\n")
    ]

    assert [beginning for counts in beginnings for beginning, count in counts.items() if count > 1] == []


def test_every_page_is_in_the_index():
    index = (ROOT / "docs/README.md").read_text()
    linked = {(ROOT / "docs" / link).resolve() for link in re.findall(r"\]\(([^)#\s]+)", index)}
    pages = {path for path in DOCUMENTS if "docs" in path.relative_to(ROOT).parts and path.parent.name != "adr"}

    assert pages - linked - {ROOT / "docs/README.md"} == set()


def test_every_picture_is_shown_and_described():
    used = [
        ((document.parent / target).resolve(), words)
        for document in DOCUMENTS
        for words, target in re.findall(r"!\[([^\]]*)\]\(([^)\s]+)\)", document.read_text())
    ]
    shots = [*OF_LAB, *(shot for of_size in OF_LARGE_MESHES.values() for shot in of_size)]
    reproducible = {IMAGES / f"{shot.name}.png" for shot in shots}

    assert {picture for picture, _ in used} == reproducible == set(IMAGES.iterdir())
    assert [picture.name for picture, words in used if len(words) < 10] == []


def test_no_picture_is_large():
    assert {path.name: path.stat().st_size for path in IMAGES.iterdir() if path.stat().st_size > MOST_BYTES} == {}


def test_the_architecture_page_names_functions():
    names = re.findall(r"`((?:probes|monitor)(?:\.\w+)+)`", (ROOT / "docs/architecture.md").read_text())

    assert len(names) > 20


def test_each_question_of_the_index_has_a_place_in_the_code():
    index = (ROOT / "docs/architecture.md").read_text().split("## Where is it?")[1]
    rows = [line.strip("| ").split(" | ") for line in index.splitlines() if line.startswith("| ")][1:]

    assert len(rows) >= 22
    assert [question for question, place in rows if not re.search(r"`(?:probes|monitor)[./]", place)] == []


def _keys_of_index(block):
    """First cells of a table of two columns."""
    rows = [re.split(r"(?<!\\) \| ", line.strip("| ")) for line in block.splitlines() if line.startswith("| ")]
    return [row[0] for row in rows] if all(len(row) == 2 for row in rows) else []


def _leads_somewhere(document, link):
    path, _, anchor = link.partition("#")
    target = document.parent / path if path else document
    return target.exists() and (not anchor or anchor in _anchors(target))


@cache
def _anchors(document):
    """Anchors of the headings in GitHub's form: lower case, hyphens for spaces, no punctuation."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    texts = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).strip().replace(" ", "-") for heading in texts}


def _exists(name):
    """Whether a dotted name is a module, or a name in a module."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            value = getattr(value, part, None)
        return value is not None
    return False


@cache
def _management_commands():
    own = {path.stem for path in ROOT.glob("monitor/**/management/commands/*.py")}
    return own | {"check", "dbshell", "migrate", "makemigrations", "createsuperuser"}


@cache
def _is_program(module):
    path = ROOT / module.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__main__.py").exists()


@cache
def _words_of_the_tree():
    """Options and upper-case names in any file outside the documents."""
    folders = [ROOT / name for name in ("monitor", "probes", "dashboards", "packaging", "scripts", "tests")]
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".sh", ".sql", ".json")]
    text = "\n".join(
        path.read_text() for path in [*files, *ROOT.glob("*.yml"), ROOT / "Makefile", ROOT / ".env.example"]
    )
    return set(re.findall(r"--[a-z][a-z0-9-]+|[A-Z0-9_]{6,}", text))
