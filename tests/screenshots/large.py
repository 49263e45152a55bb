"""The pictures of meshes of many sites: `python -m tests.screenshots.large`, part of `make screenshots`.

The meshes are those of the benchmark of the grid of sites, on a database of its own. A mesh with a picture of the
figures between regions is rolled up and evaluated, as the worker of a centre does. With `--every DIR` each page is
taken on every screen, whole, for visual checks.
"""

from __future__ import annotations

from datetime import timedelta

from tests.bench import grid_page
from tests.bench.serving import web_server
from tests.e2e.visits import browsing
from tests.screenshots.shots import IMAGES, OF_LARGE_MESHES, SCREENS, Shot, folder_of_every, take, write

ADDRESSES = {"regions": "/", "grid": grid_page.GRID}
BURSTS_SINCE = timedelta(hours=2)


def main() -> None:
    every = folder_of_every(__doc__)
    with grid_page.empty_database():
        for sites, shots in OF_LARGE_MESHES.items():
            grid_page.plant(sites)
            pages = dict.fromkeys(shot.page for shot in shots)
            if f"regions-{sites}" in pages:
                roll_up_and_evaluate()
            if every is not None:
                shots = tuple(Shot(page, screen, 0) for page in pages for screen in SCREENS)
            with web_server(grid_page.wake) as port, browsing() as browser:
                for shot in shots:
                    address = ADDRESSES[shot.page.partition("-")[0]]
                    picture = take(browser, f"http://127.0.0.1:{port}{address}", shot)
                    write((every or IMAGES) / f"{shot.name}.png", picture)


def roll_up_and_evaluate() -> None:
    """Make the hourly summaries, which the figures between regions are of, and evaluate the alert rules."""
    from django.utils import timezone

    from monitor.alerts import tasks
    from monitor.archive.rollup.recompute import recompute

    now = timezone.now()
    for _ in recompute(now - BURSTS_SINCE, now, now, limit=20_000):
        pass
    tasks.evaluate_rules()
    tasks.notify()


if __name__ == "__main__":
    main()
