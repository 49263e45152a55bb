"""What the documents point to is there, and every picture is pointed to and can be made again."""

import importlib
import re
from pathlib import Path

import pytest

from tests.screenshots import IMAGES, MOST_BYTES, SHOTS

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document):
    targets = re.findall(r"\]\(([^)#\s]+)", document.read_text())
    local = [target for target in targets if "://" not in target]

    missing = [target for target in local if not (document.parent / target).exists()]

    assert missing == []


def test_every_picture_is_shown_somewhere_with_words_for_who_cannot_see_it_and_is_made_by_the_command():
    shown = [
        ((document.parent / target).resolve(), words)
        for document in DOCUMENTS
        for words, target in re.findall(r"!\[([^\]]*)\]\(([^)\s]+)\)", document.read_text())
    ]
    made = {IMAGES / f"{shot.name}.png" for shot in SHOTS}

    assert {picture for picture, _ in shown} == made == set(IMAGES.iterdir())
    assert [picture.name for picture, words in shown if len(words) < 10] == []


def test_no_picture_is_large():
    assert {path.name: path.stat().st_size for path in IMAGES.iterdir() if path.stat().st_size > MOST_BYTES} == {}


def test_the_functions_that_the_architecture_page_names_exist():
    names = re.findall(r"`((?:probes|monitor)(?:\.\w+)+)`", (ROOT / "docs/architecture.md").read_text())

    assert len(names) > 20
    assert [name for name in names if not _exists(name)] == []


def _exists(name):
    """Whether a dotted name leads to a module, or to something in one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ModuleNotFoundError:
            continue
        for part in parts[count:]:
            found = getattr(found, part, None)
        return found is not None
    return False
