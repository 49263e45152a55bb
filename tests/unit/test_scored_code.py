"""A published score is of the code that runs: what the scores use of `monitor` and `probes`, production uses.

A function, class or constant is used where another module of production refers to it, or a part of its own module that
is used. Importing it is no use. A name that only unused code of another module refers to counts as used.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.scored.__main__ import SCORES

ROOT = Path(__file__).parents[2]
PRODUCTION = ("monitor", "probes", "dashboards")
EXAMPLES = {"monitor.analysis.changes.detector.changes"}
"""What docs show instead of the function for one moment that production calls."""
SCORED = sorted({score.name.split(".")[1] for score in SCORES.values()})

Name = tuple[str, str]
"""A module, and a name in it; the empty name is the module itself."""


class Module:
    """The names that a module defines, and what each of its parts refers to."""

    def __init__(self, name: str, text: str, others: Mapping[str, str]) -> None:
        self.name, self.others = name, others
        tree = ast.parse(text)
        self.imported: dict[str, Name] = dict(self._imports(tree))
        self.parts: dict[str, list[ast.stmt]] = defaultdict(list)
        self.found: dict[str, set[Name]] = {}
        for statement in tree.body:
            if not isinstance(statement, ast.Import | ast.ImportFrom):
                for defined in _defined(statement):
                    self.parts[defined].append(statement)

    def _imports(self, tree: ast.Module) -> Iterator[tuple[str, Name]]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield (
                        alias.asname or alias.name.split(".")[0],
                        (alias.name if alias.asname else alias.name.split(".")[0], ""),
                    )
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    module = f"{node.module}.{alias.name}"
                    yield (
                        alias.asname or alias.name,
                        (module, "") if module in self.others else (node.module, alias.name),
                    )

    def references(self, part: str) -> set[Name]:
        """The names of this and other modules that a part refers to."""
        if part not in self.found:
            nodes = (node for statement in self.parts[part] for node in ast.walk(statement))
            self.found[part] = {name for node in nodes for name in self._reference(node)}
        return self.found[part]

    def _reference(self, node: ast.AST) -> Iterator[Name]:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            if node.id in self.imported:
                yield self.imported[node.id]
            elif node.id in self.parts:
                yield self.name, node.id
        elif isinstance(node, ast.Attribute):
            yield from self._attribute(node)

    def _attribute(self, node: ast.Attribute) -> Iterator[Name]:
        """`counts.LEAST` of an imported module `counts`, and `a.b.LEAST` of `import a.b`."""
        for module, name in self._base(node.value):
            if not name:
                below = f"{module}.{node.attr}"
                yield (below, "") if below in self.others else (module, node.attr)

    def _base(self, node: ast.expr) -> Iterator[Name]:
        if isinstance(node, ast.Name) and node.id in self.imported:
            yield self.imported[node.id]
        elif isinstance(node, ast.Attribute):
            yield from self._attribute(node)


def _defined(statement: ast.stmt) -> list[str]:
    """The names that a statement defines; the empty name for one that is run for its effect."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name, ""] if statement.decorator_list and not _is_value(statement) else [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    names = [node.id for target in targets if target for node in ast.walk(target) if isinstance(node, ast.Name)]
    return names or [""]


def _is_value(statement: ast.stmt) -> bool:
    """Whether the decorators only change the function or class, and do not register it."""
    decorators = (ast.unparse(node).split("(")[0] for node in getattr(statement, "decorator_list", ()))
    return all(name in ("dataclass", "cache", "lru_cache", "contextmanager", "total_ordering") for name in decorators)


class Sources:
    """Modules of production by their names."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.modules = {name: Module(name, text, texts) for name, text in texts.items()}
        self.used: set[Name] = set()
        waiting = [(name, "") for name in self.modules]
        for name, module in self.modules.items():
            references = {reference for part in list(module.parts) for reference in module.references(part)}
            waiting += [found for found in map(self.defined, references) if found[0] != name]
        while waiting:
            name = waiting.pop()
            if name in self.used or name[0] not in self.modules:
                continue
            self.used.add(name)
            waiting += [self.defined(reference) for reference in self.modules[name[0]].references(name[1])]

    def defined(self, name: Name) -> Name:
        """Where a name is defined that a module has imported for others."""
        module = self.modules.get(name[0])
        while module is not None and name[1] not in module.parts and name[1] in module.imported:
            name = module.imported[name[1]]
            module = self.modules.get(name[0])
        return name

    def unused(self, score: Module) -> list[str]:
        """What a score refers to and production does not."""
        names = {self.defined(reference) for part in list(score.parts) for reference in score.references(part)}
        return sorted(
            f"{module}.{name}" for module, name in names if module in self.modules and (module, name) not in self.used
        )


@pytest.fixture(scope="module")
def production() -> Sources:
    files = [ROOT / "manage.py", *(path for folder in PRODUCTION for path in (ROOT / folder).rglob("*.py"))]
    return Sources({_module_name(path): path.read_text() for path in files})


def _module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("name", SCORED)
def test_what_is_scored_is_what_runs(production: Sources, name: str) -> None:
    texts = dict.fromkeys(production.modules, "")
    folder = ROOT / "tests" / name
    paths = sorted(folder.rglob("*.py")) or [folder.with_suffix(".py")]

    unused = {path.name: production.unused(Module(_module_name(path), path.read_text(), texts)) for path in paths}

    assert {file: set(names) - EXAMPLES for file, names in unused.items() if set(names) - EXAMPLES} == {}


TEXTS = {
    "monitor": "",
    "monitor.rules": "from monitor.rules.one import find, old",
    "monitor.rules.one": (
        "LEAST = 1\n"
        "def find(): return _best(LEAST)\n"
        "def _best(least): return least\n"
        "def old(): return older()\n"
        "def older(): return find()\n"
    ),
    "monitor.rules.two": "def alone(): return alone()\n",
    "monitor.page": (
        "from monitor.rules import find, old\nfrom monitor.rules.two import alone\ndef show(): return find()\n"
    ),
}


@pytest.mark.parametrize(
    ("score", "unused"),
    [
        ("from monitor.rules import find\nfind()", []),
        ("from monitor.rules.one import LEAST, _best\n_best(LEAST)", []),
        ("from monitor.rules import one\none.find()", []),
        ("import monitor.rules.one\nmonitor.rules.one.old()", ["monitor.rules.one.old"]),
        ("from monitor.rules import old\nold()", ["monitor.rules.one.old"]),
        ("from monitor.rules import one as first\ndef score():\n    first.older()", ["monitor.rules.one.older"]),
        ("def score():\n    from monitor.rules.two import alone\n    alone()", ["monitor.rules.two.alone"]),
    ],
)
def test_a_name_that_production_only_imports_is_unused(score: str, unused: list[str]) -> None:
    assert Sources(TEXTS).unused(Module("tests.score", score, TEXTS)) == unused
