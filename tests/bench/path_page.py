"""The path page on a slow laptop: from the click on a cell of the grid until its first chart is painted, and the
longest time for which the browser is blocked.

A database of its own is filled with a day of pings and throughput tests on each path of five sites. Gunicorn serves the
pages as `manage.py up` does, and Chromium, with its processor throttled to a quarter and an empty cache, opens the grid
and clicks a cell. The figures are medians of seven visits. SOUNDINGS_BENCH_BASE names a worktree of another commit: it
is served too, on the same data, and both are visited in turn.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from tests.bench import Row

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TREE = Path(__file__).resolve().parents[2]
VISITS = 7
THROTTLED = 4
SITES = ("cern", "fnal", "ornl", "slac", "uct")
TIMEOUT_S = 120
WATCH = """() => {
  window.tasks = [];
  const note = (task) => window.tasks.push([task.startTime, task.duration]);
  new PerformanceObserver((list) => list.getEntries().forEach(note))
    .observe({ type: 'longtask', buffered: true });
  const charts = (inside) => [...document.querySelectorAll('[data-chart]')]
    .filter((chart) => chart.checkVisibility())
    .map((chart) => (chart.nextElementSibling !== null || document.readyState !== 'loading')
      && [...chart.querySelectorAll(inside)].some((drawn) => drawn.getBoundingClientRect().height > 50));
  const look = (name, inside, enough) => {
    const shown = charts(inside);
    if (shown.length > 0 && enough(shown)) {
      setTimeout(() => {
        window[name] = performance.now();
        if (window.first !== undefined && window.all !== undefined) console.info('all charts are interactive');
      });
    } else requestAnimationFrame(() => look(name, inside, enough));
  };
  look('first', 'svg, canvas', (shown) => shown.some(Boolean));
  look('all', 'canvas', (shown) => document.readyState !== 'loading' && shown.every(Boolean));
}"""
"""Sets `first` to the milliseconds from the click until a frame with a chart is painted, `all` until every chart in a
shown part of the page is interactive, and collects the tasks of more than 50 ms."""


def run() -> list[Row]:
    """The rows of this tree, and of the one of SOUNDINGS_BENCH_BASE."""
    from tests.e2e.visits import browsing

    trees = {"": TREE}
    if os.environ.get("SOUNDINGS_BENCH_BASE"):
        base = Path(os.environ["SOUNDINGS_BENCH_BASE"]).resolve()
        trees = {"": TREE, f", at {_commit(base)}": base}
    with ExitStack() as stack:
        ports = {name: stack.enter_context(served(tree)) for name, tree in trees.items()}
        browser = stack.enter_context(browsing())
        visits: dict[str, list[VisitTimes]] = {name: [] for name in trees}
        for number in range(VISITS + 1):
            for name, port in ports.items():
                times = visited(browser, f"http://127.0.0.1:{port}")
                if number > 0:  # the first fills the caches of the servers
                    visits[name].append(times)
    return [row for name, times in visits.items() for row in rows(name, times)]


VisitTimes = dict[str, float]


def rows(name: str, visits: list[VisitTimes]) -> list[Row]:
    """The rows of a tree."""

    def of_all(key: str) -> str:
        values = [visit[key] for visit in visits]
        return f"{statistics.median(values):.0f} ms, longest {max(values):.0f} ms"

    is_base = name != ""
    return [
        Row(f"click to first chart{name}", of_all("first"), "" if is_base else "500 ms"),
        Row(f"longest task before it{name}", of_all("blocked_before"), "" if is_base else "200 ms"),
        Row(f"every chart interactive{name}", of_all("all")),
        Row(f"longest task after the first{name}", of_all("blocked_after"), "" if is_base else "1000 ms"),
    ]


def visited(browser: Browser, address: str) -> VisitTimes:
    """Open the grid and click a cell, with an empty cache and a quarter of the processor."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(f"{address}/?period=day", wait_until="networkidle")
    devtools = context.new_cdp_session(page)
    devtools.send("Emulation.setCPUThrottlingRate", {"rate": THROTTLED})
    page.add_init_script(f"({WATCH})()")
    # A function to wait for would bring Playwright's own script into the page, a task of 0.1 s before the first chart.
    with page.expect_console_message(lambda said: said.text == "all charts are interactive", timeout=1000 * TIMEOUT_S):
        page.locator("td a[href^='/paths/']").first.click(no_wait_after=True)
    first, whole, tasks = page.evaluate("() => [window.first, window.all, window.tasks]")
    context.close()
    return {
        "first": first,
        "all": whole,
        "blocked_before": max((took for at, took in tasks if at < first), default=0.0),
        "blocked_after": max((took for at, took in tasks if at >= first), default=0.0),
    }


@contextmanager
def served(tree: Path) -> Iterator[int]:
    """The pages of a tree on a database of its own, in a process of its own; yields the port."""
    with tempfile.TemporaryDirectory(prefix="soundings-bench-page-") as folder:
        ready = Path(folder) / "port"
        environment = {**os.environ, "PYTHONPATH": str(tree)}
        # Without this file's folder on the path, so that all but this file is the other tree's.
        argv = [sys.executable, "-P", __file__, str(ready)]
        process = subprocess.Popen(argv, cwd=tree, env=environment, stdin=subprocess.PIPE)
        try:
            deadline = time.monotonic() + TIMEOUT_S
            while not ready.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"{tree}: the pages are not served")
                time.sleep(0.1)
            yield int(ready.read_text())
        finally:
            process.communicate()


def serve(ready: Path) -> None:
    """Plant and serve until standard input ends. Writes the port into the file."""
    import django
    from django.core.management import call_command

    from tests.bench.archive import database

    with database():
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "monitor.settings")
        os.environ |= {"SOUNDINGS_LOCAL_READ": "1", "SOUNDINGS_ALLOW_PLAIN_HTTP": "1"}
        django.setup()
        call_command("migrate", verbosity=0)
        plant()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.set_inheritable(True)
            port = listener.getsockname()[1]
            argv = [sys.executable, "-m", "gunicorn", "--config", "python:monitor.stack.serving"]
            argv += ["--bind", f"fd://{listener.fileno()}", "--access-logfile", os.devnull, "--log-level", "error"]
            process = subprocess.Popen(argv, pass_fds=[listener.fileno()])
            try:
                wait_for_answer(port)
                written = ready.with_suffix(".new")
                written.write_text(str(port))
                written.rename(ready)
                sys.stdin.read()
            finally:
                process.terminate()
                process.wait()


def wait_for_answer(port: int) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    connection.request("GET", "/calculator/")
    status = connection.getresponse().status
    if status != 200:
        raise SystemExit(f"the pages answered {status}")


def plant() -> None:
    """A day of bursts each minute and of throughput tests each hour on every path, with little loss."""
    from django.db import connection
    from django.utils import timezone

    from monitor.archive.models import Burst, ThroughputTest
    from monitor.archive.rollup.recompute import recompute
    from tests.db.pages_mesh import make_mesh

    random = Random(47)
    now = timezone.now().replace(second=0, microsecond=0)
    since = now - timedelta(days=1)
    bursts: list[Any] = []
    tests: list[Any] = []
    for path in make_mesh(SITES, since).values():
        base_ms = random.uniform(5, 200)
        for minute in range(24 * 60):
            lost = 1 if random.random() < 0.02 else 0
            rtts_ms = [None] * lost + [base_ms + random.expovariate(1.0) for _ in range(10 - lost)]
            bursts.append(
                Burst(
                    path_id=path.pk, packet_bytes=100, measured_at=since + timedelta(minutes=minute),
                    outcome="measured", sent=10, received=10 - lost, duplicates=0, reordered=0,
                    during_test=False, rtts_ms=rtts_ms,
                )
            )  # fmt: skip
        for hour in range(24):
            tests.append(
                ThroughputTest(
                    path_id=path.pk, measured_at=since + timedelta(minutes=60 * hour + 7), test="tcp",
                    outcome="measured", streams=1, throughput_bps=random.uniform(8e7, 9.5e7),
                )
            )  # fmt: skip
    Burst.objects.bulk_create(bursts, batch_size=2000)
    ThroughputTest.objects.bulk_create(tests)
    for _ in recompute(since, now, now):
        pass
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _commit(tree: Path) -> str:
    argv = ["git", "-C", str(tree), "rev-parse", "--short", "HEAD"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
