"""Figures on the language of the code: words that stand in for terms, and names with more than one meaning.

`python scripts/plain_words.py [FOLDER …]` reads the Python files of these folders (probes, monitor and dashboards by
default) and prints: the words of all docstrings, how often "what" and "one" occur in 1,000 of them, how often the
variables `one`, `found`, `known` and `asked` are bound, and which class names are defined in more than one module.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("probes", "monitor", "dashboards")
WORDS = ("what", "one")
STAND_INS = ("one", "found", "known", "asked")
PER_WORDS = 1000
REQUIRED_NAMES = {"Command"}
"""Names that a framework prescribes: Django looks for this class in each command's module."""


def modules(folders: list[str]) -> Iterator[tuple[Path, ast.Module]]:
    """Each Python file of these folders below the project with its syntax tree; migrations are left out."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path, ast.parse(path.read_text())


def docstring_words(tree: ast.Module) -> list[str]:
    """The words of all docstrings of a module, also of those below constants, in lower case."""
    texts = (
        node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
    return [word for text in texts for word in re.findall(r"[a-z]+(?:['’-][a-z]+)*", text.lower())]


def bound_names(tree: ast.Module) -> Iterator[str]:
    """Every binding of a variable or parameter."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def shared_class_names(trees: Iterable[tuple[Path, ast.Module]]) -> dict[str, set[str]]:
    """The class names defined in more than one module, each with these modules."""
    places: dict[str, set[str]] = defaultdict(set)
    for path, tree in trees:
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name not in REQUIRED_NAMES:
                places[node.name].add(path.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."))
    return {name: where for name, where in places.items() if len(where) > 1}


def main(folders: list[str]) -> None:
    words: Counter[str] = Counter()
    bindings: Counter[str] = Counter()
    trees = list(modules(folders))
    for _, tree in trees:
        words.update(docstring_words(tree))
        bindings.update(name for name in bound_names(tree) if name in STAND_INS)
    total = sum(words.values())
    print(f"docstring words: {total}")
    for word in WORDS:
        print(f'"{word}" per {PER_WORDS} of them: {PER_WORDS * words[word] / total:.1f}')
    for name in STAND_INS:
        print(f"variable {name} bound: {bindings[name]}")
    shared = shared_class_names(trees)
    print(f"class names defined in more than one module: {len(shared)}")
    for name, where in sorted(shared.items()):
        print(f"  {name}: {', '.join(sorted(where))}")


if __name__ == "__main__":
    main(sys.argv[1:] or list(FOLDERS))
