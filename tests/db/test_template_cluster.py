"""The tests run on a copy of a template cluster; each state of the migrations has its own template."""

import os
import shutil
import subprocess
import sys
import time

import pytest

from monitor.stack.postgres import find
from tests import template_cluster
from tests.template_cluster import KEPT_UNUSED_S, TOP, digest, remove_unused


@pytest.fixture
def tree(tmp_path):
    """A copy of the files that a template depends on."""
    for path in (path for pattern in template_cluster.DEPENDS_ON for path in TOP.glob(pattern)):
        target = tmp_path / path.relative_to(TOP)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    return tmp_path


def test_every_pattern_finds_files():
    assert [pattern for pattern in template_cluster.DEPENDS_ON if not list(TOP.glob(pattern))] == []


def test_an_equal_tree_has_the_same_template(tree):
    assert digest(tree, find()) == digest(TOP, find())


@pytest.mark.parametrize("change", ["edited", "added"])
def test_another_migration_needs_another_template(tree, change):
    before = digest(tree, find())
    folder = tree / "monitor" / "mesh" / "migrations"
    path = min(folder.glob("0*.py")) if change == "edited" else folder / "0099_added.py"
    with path.open("a") as file:
        file.write("# changed\n")

    assert digest(tree, find()) != before


def test_a_template_that_nobody_used_for_a_day_is_removed(tmp_path):
    now_s = time.time()
    for name, unused_s in {"new": 0.0, "old": KEPT_UNUSED_S + 1.0, "interrupted.part": 0.0}.items():
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (now_s - unused_s,) * 2)

    remove_unused(tmp_path, now_s)

    assert [path.name for path in tmp_path.iterdir()] == ["new"]


COPY = """
import sys
from pathlib import Path
from monitor.stack.postgres import Cluster, find
from tests import template_cluster
def make(template, distribution):
    print("made", flush=True)
    template.mkdir()
    (template / "PG_VERSION").touch()
template_cluster._make = make
template_cluster.copy_template(Cluster(Path(sys.argv[1]), find()))
"""


def test_of_processes_that_need_it_at_once_one_makes_it(tmp_path):
    environment = {**os.environ, "SOUNDINGS_TEST_CLUSTERS": str(tmp_path / "clusters")}
    copies = [tmp_path / name for name in ("first", "second", "third")]
    running = [
        subprocess.Popen([sys.executable, "-c", COPY, str(copy)], cwd=TOP, env=environment, stdout=subprocess.PIPE)
        for copy in copies
    ]
    said = [process.communicate(timeout=120)[0] for process in running]

    assert [process.returncode for process in running] == [0, 0, 0]
    assert b"".join(said).split() == [b"made"]
    assert all((copy / "PG_VERSION").exists() for copy in copies)
