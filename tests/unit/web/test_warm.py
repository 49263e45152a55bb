"""The preparations of the web server: readers of a worker that has just begun find the grid, or wait for its load."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.http import HttpRequest
from django.template import engines

from monitor.stack import serving
from monitor.web import warm
from monitor.web.charts import bundle, smoke
from monitor.web.request import grid_choices

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.fixture
def loads(monkeypatch):
    """The loads of grids, which wait until `may_end` is set."""
    loads = SimpleNamespace(begun=[], may_end=threading.Event())

    def load(*choices):
        loads.begun.append(choices)
        assert loads.may_end.wait(10)
        return SimpleNamespace(figures=range(grid_choices.FEW_PATHS), until=choices[-1])

    monkeypatch.setattr(grid_choices, "_load", load)
    monkeypatch.setattr(grid_choices, "_large", {})
    monkeypatch.setattr(warm.timezone, "now", lambda: NOW)
    monkeypatch.setattr(warm, "_make_chart_files", lambda: None)
    monkeypatch.setattr(warm, "make_early", lambda: None)
    monkeypatch.setattr(warm.mesh_results, "load_early", lambda: None)
    monkeypatch.setattr(warm, "shows_sites", lambda request: True)
    yield loads
    loads.may_end.set()
    with grid_choices._large_load:  # no thread of this test stores its grid in the next
        pass


def read(**choices):
    request = HttpRequest()
    request.GET.update(choices)
    return grid_choices.load_chosen_grid(request, NOW + timedelta(seconds=5)).until


def test_the_first_reader_of_a_worker_gets_its_warmed_grid(loads):
    loads.may_end.set()
    serving.post_worker_init(None)
    with grid_choices._large_load:  # the thread has ended its load
        pass

    assert read() == NOW
    assert len(loads.begun) == 1


def test_a_grid_that_the_first_page_does_not_show_is_not_loaded(loads, monkeypatch):
    monkeypatch.setattr(warm, "shows_sites", lambda request: False)

    serving.post_worker_init(None)
    with grid_choices._large_load:  # the thread has ended
        pass

    assert loads.begun == []


def test_a_reader_during_the_load_waits_for_it(loads):
    serving.post_worker_init(None)
    with ThreadPoolExecutor(2) as readers:
        first, second = readers.submit(read), readers.submit(read)
        loads.may_end.set()

    assert (first.result(), second.result()) == (NOW, NOW)
    assert len(loads.begun) == 1


def test_a_reader_of_another_grid_does_not_wait(loads, monkeypatch):
    serving.post_worker_init(None)
    monkeypatch.setattr(grid_choices, "_load", lambda *choices: SimpleNamespace(figures=(), until=choices[-1]))

    assert read(period="hour") == NOW + timedelta(seconds=5)


def test_without_the_database_the_first_reader_loads(loads, monkeypatch):
    def fail(*choices):
        raise OSError("no database")

    monkeypatch.setattr(grid_choices, "_load", fail)
    serving.post_worker_init(None)
    with grid_choices._large_load:
        pass
    monkeypatch.setattr(grid_choices, "_load", lambda *choices: SimpleNamespace(figures=(), until=choices[-1]))

    assert read() == NOW + timedelta(seconds=5)


def test_layouts_and_templates_are_ready_before_the_workers_are_forked():
    smoke.smoke_layout.cache_clear()
    [loader] = engines["django"].engine.template_loaders
    loader.reset()

    serving.when_ready(None)

    assert smoke.smoke_layout.cache_info().currsize == 1
    needed = {"pages/grid/grid.html", "pages/path/path.html", "pages/path/tabs/_tests.html", "web/base.html"}
    assert needed <= loader.get_template_cache.keys()


def test_missing_files_of_charts_do_not_stop_a_worker(monkeypatch, caplog):
    def fail():
        raise bundle.BundleError("no memory")

    monkeypatch.setattr(bundle, "bundle_gzip", fail)

    warm._make_chart_files()

    assert "no memory" in caplog.text


def test_workers_that_begin_together_make_the_files_of_charts_once(monkeypatch, settings, tmp_path):
    settings.DATA_DIR = tmp_path
    makers, second = [], threading.Event()

    def make():
        makers.append(threading.get_ident())
        if len(makers) > 1:
            second.set()
        second.wait(0.5)
        return "bundle"

    monkeypatch.setattr(bundle, "_make", make)
    monkeypatch.setattr(warm, "compile_layouts", lambda specs: None)
    with ThreadPoolExecutor(2) as workers:
        for made in [workers.submit(warm._make_chart_files) for _ in range(2)]:
            made.result()

    assert len(makers) == 1
