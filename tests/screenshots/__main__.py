"""The pictures of the README and the docs: `make screenshots`, half an hour on an otherwise idle machine.

Starts a lab of five sites as `make run` does, in a folder of its own, plants `FAULTS` and a new test, waits until every
fault is an incident and every page has data, takes the pictures of `SHOTS` into docs/images, and ends everything. With
`--every DIR` each page is taken on every screen, for visual checks.
"""

from __future__ import annotations

from datetime import UTC, datetime

from probes.lab.scenario import DEFAULT_SCENARIO
from tests.e2e.stack import RunningStack, running_stack, wait_for
from tests.e2e.visits import browsing
from tests.screenshots.shots import IMAGES, OF_LAB, SCREENS, Shot, folder_of_every, say, take, write

PATIENCE_S = 1500
QUIET_PACKETS = 200
"""Packets sent on every path before anything is planted: the baseline of the alerts."""
TESTED_PATHS = 20
"""Number of the lab's twenty paths that need a throughput test before pictures are taken."""
TESTS_BEFORE = 10
"""Tests of the path whose rate is to fall: two more than the alert compares with."""

LOSSY, LONGER, SLOWER, AT_REST = ("cern", "ornl"), ("slac", "in2p3"), ("nersc", "cern"), ("slac", "ornl")
FAULTS = {
    LOSSY: ("--loss", "0.06"),
    LONGER: ("--rtt-ms", "235"),
    SLOWER: ("--rate-mbps", "3"),
}
"""Loss one way, a longer route both ways, a fall of the rate one way: on different paths, with a cause each."""
MORE_TESTS = f"""
[[test]]
name = "narrowest"
kind = "capacity"
every_s = 600

[[test]]
name = "frequent"
kind = "throughput"
every_s = 60
duration_s = 3

[[group]]
name = "compared"
shape = "between"
from = ["{SLOWER[0]}"]
to = ["{SLOWER[1]}"]
tests = ["frequent"]
"""


def main() -> None:
    every = folder_of_every(__doc__)
    with running_stack("--lab", DEFAULT_SCENARIO) as stack:
        prepare(stack)
        addresses = addresses_of(stack)
        with browsing() as browser:
            shots = OF_LAB if every is None else _each_on_every_screen(addresses)
            for shot in shots:
                picture = take(browser, f"http://127.0.0.1:{stack.port}{addresses[shot.page]}", shot)
                write((every or IMAGES) / f"{shot.name}.png", picture)


def _each_on_every_screen(addresses: dict[str, str]) -> list[Shot]:
    return [Shot(name, screen, 0) for name in addresses for screen in SCREENS]


def prepare(stack: RunningStack) -> None:
    """Create data for every page."""
    wait_for(lambda: all_sent(stack, 1), PATIENCE_S, "every path is measured")
    say("every path is measured; more tests are planned")
    mesh = stack.data / "lab" / "mesh.toml"
    text = mesh.read_text()
    tests = 'tests = ["ping", "tcp"]'
    assert tests in text, "the lab's mesh.toml has a group with two tests"
    mesh.write_text(text.replace(tests, 'tests = ["ping", "tcp", "narrowest"]') + MORE_TESTS)
    stack.manage("mesh", "apply", str(mesh))
    wait_for(lambda: all_sent(stack, QUIET_PACKETS), PATIENCE_S, f"{QUIET_PACKETS} packets on every path")
    wait_for(lambda: tests_of(stack, SLOWER) >= TESTS_BEFORE, PATIENCE_S, f"{TESTS_BEFORE} tests of a path")
    wait_for(lambda: tested(stack) >= TESTED_PATHS, PATIENCE_S, f"{TESTED_PATHS} paths with a throughput test")
    say("the baseline is complete; faults are planted")
    for path, change in FAULTS.items():
        stack.lab("set", "-".join(path), *change)
    for path in FAULTS:
        wait_for(lambda path=path: incident_of(stack, path), PATIENCE_S, f"{' → '.join(path)} has an incident")
        say(f"{' → '.join(path)} has an incident")
    wait_for(lambda: stack.get(f"paths/{path_id(stack, LOSSY)}/capacity"), PATIENCE_S, "the path's narrowest link")
    today = datetime.now(UTC).date()
    stack.manage("report", "weekly", "--week", f"{today:%G-W%V}")


def addresses_of(stack: RunningStack) -> dict[str, str]:
    """Each page's address on the stack."""
    return {
        "grid": "/",
        "path": f"/paths/{path_id(stack, LOSSY)}/?period=hour",
        "path-at-rest": f"/paths/{path_id(stack, AT_REST)}/?period=hour",
        "incident": f"/incidents/{incident_of(stack, LOSSY)}/",
        "grid-delay": "/?metric=rtt",
        "path-delay": f"/paths/{path_id(stack, LONGER)}/?period=hour",
        "incident-delay": f"/incidents/{incident_of(stack, LONGER)}/",
        "grid-throughput": "/?metric=throughput",
        "path-throughput": f"/paths/{path_id(stack, SLOWER)}/?period=hour",
        "incident-throughput": f"/incidents/{incident_of(stack, SLOWER)}/",
        "wall": "/?wall=1",
        "status": "/status/",
        "site": f"/sites/{LOSSY[1]}/?period=hour",
        "throughput": "/throughput/?period=hour",
        "map": "/map/",
        "report": f"/reports/{datetime.now(UTC):%G-W%V}",
    }


def all_sent(stack: RunningStack, packets: int) -> bool:
    """Whether every path has sent this many packets."""
    cells = stack.get("grid?metric=loss_ratio&period=hour")["cells"]
    return bool(cells) and all((cell["sent"] or 0) >= packets for cell in cells)


def tested(stack: RunningStack) -> int:
    """Number of paths with a measured throughput test."""
    cells = stack.get("grid?metric=throughput_median_bps&period=hour")["cells"]
    return sum(cell["value"] is not None for cell in cells)


def path_id(stack: RunningStack, ends: tuple[str, str]) -> int:
    """The path between two sites."""
    id_of = {(path["source"]["site"], path["destination"]["site"]): path["id"] for path in stack.get("paths")}
    return int(id_of[ends])


def incident_of(stack: RunningStack, ends: tuple[str, str]) -> int | None:
    """The open incident that the path is part of."""
    key = path_id(stack, ends)
    incidents = stack.get("incidents?state=open")
    return next((item["id"] for item in incidents if key in item["path_ids"]), None)


def tests_of(stack: RunningStack, ends: tuple[str, str]) -> int:
    """Number of measured throughput tests of the path."""
    tests = stack.get(f"paths/{path_id(stack, ends)}/throughput")
    return sum(test["outcome"] == "measured" for test in tests)


if __name__ == "__main__":
    main()
