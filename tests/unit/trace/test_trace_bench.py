"""The programs that the benchmark of traces runs in a namespace import names that exist."""

from __future__ import annotations

import ast
from importlib import import_module

from tests.bench.trace import ROUNDS


def test_the_names_that_the_benchmark_imports_exist():
    imports = [node for node in ast.walk(ast.parse(ROUNDS)) if isinstance(node, ast.ImportFrom)]
    missing = [
        f"{node.module}.{name.name}"
        for node in imports
        for name in node.names
        if not hasattr(import_module(node.module or ""), name.name)
    ]

    assert len(imports) >= 6
    assert missing == []
