"""`python scripts/plain_words.py [FOLDER …]`: the language of the code, in figures; of the product by default."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("probes", "monitor", "dashboards")
GENITIVES = re.compile(r"\b(that of|those of|of which|whose)\b", re.IGNORECASE)
# Of a docstring of anything but a module.
MOST_WORDS = 60
REQUIRED_NAMES = {"Command"}
"""Names that a framework prescribes: Django looks for this class in each command's module."""


def modules(folders: Iterable[str]) -> Iterator[tuple[Path, ast.Module]]:
    """Each Python file of these folders with its syntax tree; migrations are left out."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path, ast.parse(path.read_text())


@dataclass(frozen=True, slots=True)
class Language:
    """Words of docstrings a line, genitives per 1,000 of them, the share of lines with a comment, long docstrings."""

    words_a_line: float
    genitives: float
    comments: float
    long: list[str]


def language(trees: Sequence[tuple[Path, ast.Module]]) -> Language:
    """The language of these modules."""
    texts, long = [], []
    for path, tree in trees:
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                texts.append(node.value.value)
                if len(_words(texts[-1])) > MOST_WORDS and node not in tree.body[:1]:
                    long.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    lines = [line for path, _ in trees for line in path.read_text().splitlines()]
    words = sum(len(_words(text)) for text in texts)
    genitives = sum(len(GENITIVES.findall(text)) for text in texts)
    comments = sum("  # " in line or line.lstrip().startswith("# ") for line in lines)
    return Language(words / len(lines), 1000 * genitives / max(words, 1), comments / len(lines), long)


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]+(?:['’-][a-z]+)*", text.lower())


def shared_class_names(trees: Iterable[tuple[Path, ast.Module]]) -> dict[str, set[str]]:
    """The class names defined in more than one module, each with these modules."""
    places: dict[str, set[str]] = defaultdict(set)
    for path, tree in trees:
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name not in REQUIRED_NAMES:
                places[node.name].add(path.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."))
    return {name: where for name, where in places.items() if len(where) > 1}


def main(folders: Sequence[str]) -> None:
    trees = list(modules(folders))
    of = language(trees)
    print(f"words of docstrings a line: {of.words_a_line:.2f}")
    print(f"genitive chains per 1,000 of them: {of.genitives:.1f}")
    print(f"lines with a comment: {of.comments:.1%}")
    print(f"docstrings of more than {MOST_WORDS} words, but for modules: {len(of.long)}")
    for place, number in Counter(place.rpartition("/")[0] for place in of.long).most_common():
        print(f"  {place}: {number}")
    for name, where in sorted(shared_class_names(trees).items()):
        print(f"class {name} is in {', '.join(sorted(where))}")


if __name__ == "__main__":
    main(sys.argv[1:] or FOLDERS)
