"""Imports run one way: no module imports itself through others, and no kind of measurement imports another."""

from __future__ import annotations

from graphlib import TopologicalSorter

import grimp
import pytest

from probes.kinds import KINDS
from scripts.plain_words import FOLDERS


@pytest.fixture(scope="module")
def imports() -> grimp.ImportGraph:
    """All imports of the product, also those inside functions."""
    return grimp.build_graph(*FOLDERS, cache_dir=None)


def test_no_imports_form_a_circle(imports: grimp.ImportGraph) -> None:
    imported = {module: imports.find_modules_directly_imported_by(module) for module in imports.modules}

    TopologicalSorter(imported).prepare()


def test_no_kind_imports_another(imports: grimp.ImportGraph) -> None:
    folders = {kind.task.__module__.rpartition(".")[0] for kind in KINDS.values()}

    assert len(folders) == len(KINDS)
    assert imports.find_illegal_dependencies_for_layers([grimp.Layer(*folders, independent=True)]) == set()
