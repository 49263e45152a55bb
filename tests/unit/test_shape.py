"""The shape of the tree: a class name has one meaning, a file has 500 lines and a folder about fifteen modules at most,
migrations aside; and docstrings are short."""

from __future__ import annotations

from collections import Counter

from scripts.plain_words import FOLDERS, ROOT, language, modules, shared_class_names

ROW_AND_STRUCT = {"Burst", "Slot"}
"""The row of the database and the struct of the same thing."""
MODULES_OF_A_FOLDER = 16
LINES_OF_A_FILE = 500


def test_a_class_name_has_one_meaning() -> None:
    assert set(shared_class_names(modules(FOLDERS))) == ROW_AND_STRUCT


def test_a_folder_has_few_modules() -> None:
    names = (
        path
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if path.name != "__init__.py" and path.parent.name != "migrations"
    )
    sizes = Counter(path.parent.relative_to(ROOT).as_posix() for path in names)

    assert {folder: size for folder, size in sizes.items() if size > MODULES_OF_A_FOLDER} == {}


def test_a_file_has_few_lines() -> None:
    lengths = {
        path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines())
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if path.parent.name != "migrations"
    }

    assert {name: lines for name, lines in lengths.items() if lines > LINES_OF_A_FILE} == {}


def test_docstrings_are_short_and_comments_say_why() -> None:
    of = language(list(modules(FOLDERS)))

    assert of.words_a_line <= 0.60
    assert of.genitives <= 0.5
    assert of.comments >= 0.02
