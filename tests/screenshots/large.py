"""The pictures of large grids: `python -m tests.screenshots.large`, part of `make screenshots`.

The meshes are those of the benchmark of the first page, on a database of its own. With `--every DIR` the pictures go
there.
"""

from __future__ import annotations

from tests.bench import grid_page
from tests.bench.serving import web_server
from tests.e2e.visits import browsing
from tests.screenshots.shots import IMAGES, OF_LARGE_MESHES, folder_of_every, take, write


def main() -> None:
    every = folder_of_every(__doc__)
    with grid_page.empty_database():
        for sites, shots in OF_LARGE_MESHES.items():
            grid_page.plant(sites)
            with web_server(grid_page.wake) as port, browsing() as browser:
                for shot in shots:
                    picture = take(browser, f"http://127.0.0.1:{port}/", shot)
                    write((every or IMAGES) / f"{shot.name}.png", picture)


if __name__ == "__main__":
    main()
