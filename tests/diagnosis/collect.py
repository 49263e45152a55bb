"""Run the settings in the lab with iperf3 and store their reports: `python -m tests.diagnosis.collect`.

It takes about a quarter of an hour and needs root and iperf3. Three pairs of sites run at once, so that no processor is
the limit.
"""

from __future__ import annotations

import argparse
import json
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.diagnosis.reports import Json, write
from tests.diagnosis.settings import Setting, settings
from tests.lab import RunningLab, wait_until

PORT, OTHER_PORTS = 5201, (5202, 5203, 5204)
OTHERS_FIRST_S, DRAINED_S = 3.0, 1.5
"""Time that other flows have the link to themselves, and that its queue takes to be empty after them."""

USUAL_BUFFER = "4096 131072 6291456"

SITE = """
[[site]]
name = "{name}"
title = "{name}"
latitude_deg = {degrees}.0
longitude_deg = 7.0
country = "CH"
region = "Europe"
"""
PATH = """
[[path]]
between = ["a{number}", "b{number}"]
rtt_ms = 40
"""


def main() -> int:
    """Exit status 1 where a setting left no report."""
    parser = argparse.ArgumentParser(prog="python -m tests.diagnosis.collect", description=__doc__)
    parser.add_argument("--pairs", type=int, default=3, help="pairs of sites that test at once (3)")
    pairs = parser.parse_args().pairs
    waiting: queue.SimpleQueue[Setting] = queue.SimpleQueue()
    for setting in settings():
        waiting.put(setting)
    reports: dict[str, Json] = {}
    with tempfile.TemporaryDirectory() as folder:
        scenario = Path(folder) / "pairs.toml"
        scenario.write_text(_scenario(pairs))
        with RunningLab(str(scenario)) as lab, _servers(lab, pairs):
            workers = [threading.Thread(target=_work, args=(lab, number, waiting, reports)) for number in range(pairs)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
    write((setting.name, reports[setting.name]) for setting in settings() if setting.name in reports)
    return 0 if len(reports) == len(settings()) else 1


def _scenario(pairs: int) -> str:
    sites = "".join(
        SITE.format(name=f"{end}{number}", degrees=40 + number) for number in range(pairs) for end in ("a", "b")
    )
    paths = "".join(PATH.format(number=number) for number in range(pairs))
    return f'title = "Pairs"\n{sites}\n[default]\nrate_mbps = 50\nreorder_hold_ms = 150\n{paths}'


@contextmanager
def _servers(lab: RunningLab, pairs: int) -> Iterator[None]:
    """Servers at every second site; the kernel keeps no metrics of earlier connections."""
    servers: list[subprocess.Popen[str]] = []
    try:
        for number in range(pairs):
            for site in (f"a{number}", f"b{number}"):
                assert lab.exec(site, "sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=1").returncode == 0
            for port in (PORT, *OTHER_PORTS):
                command = f"exec iperf3 -s -J -i {0.1 if port == PORT else 1} -p {port} > /dev/null"
                servers.append(lab.popen(f"b{number}", "sh", "-c", command))
            wait_until(partial(_listens, lab, f"b{number}"), "the servers listen")
        yield
    finally:
        for server in servers:
            server.kill()
            server.communicate()


def _listens(lab: RunningLab, site: str) -> bool:
    return f":{OTHER_PORTS[-1]}" in lab.exec(site, "ss", "-tlnH").stdout


def _work(lab: RunningLab, number: int, waiting: queue.SimpleQueue[Setting], reports: dict[str, Json]) -> None:
    while True:
        try:
            setting = waiting.get_nowait()
        except queue.Empty:
            return
        report = _report(lab, f"a{number}", f"b{number}", setting)
        if "error" in report:
            print(f"{setting.name}: {report['error']}", file=sys.stderr)
            continue
        reports[setting.name] = report
        print(f"{setting.name:15} {report['end']['sum_received']['bits_per_second'] / 1e6:6.2f} Mbit/s", flush=True)


def _report(lab: RunningLab, client: str, server: str, setting: Setting) -> Json:
    lab.set(f"{client}-{server}", "--both", *_path(setting))
    receiver = client if setting.reverse else server
    arguments = ["iperf3", "-c", lab.address(server), "-J", "-C", setting.control, *(["-R"] if setting.reverse else [])]
    others = [
        lab.popen(client, *_other(arguments, lab.address(server), setting), "-p", str(port))
        for port in OTHER_PORTS[: setting.others]
    ]
    try:
        if others:
            time.sleep(OTHERS_FIRST_S)
        if setting.receive_buffer is not None:
            _set_buffer(lab, receiver, f"4096 65536 {setting.receive_buffer}")
        done = lab.exec(client, *arguments, *_options(setting), timeout_s=setting.duration_s + 40.0)
    finally:
        _set_buffer(lab, receiver, USUAL_BUFFER)
        for other in others:
            other.kill()
            other.communicate()
        time.sleep(DRAINED_S if others else 0.0)
    report: Json = json.loads(done.stdout)
    return report


def _path(setting: Setting) -> list[str]:
    policer_mbps = setting.policer_mbps
    options = {
        "rate-mbps": setting.rate_mbps,
        "queue-ms": setting.queue_ms,
        "loss": setting.loss_ratio,
        "reorder": setting.reorder_ratio,
        "jitter-ms": setting.jitter_ms,
        "rtt-ms": setting.rtt_ms,
        "policer-mbps": "unlimited" if policer_mbps is None else policer_mbps,
        # A quarter of a second.
        "policer-bytes": round((policer_mbps or 1.0) * 1e6 / 32),
    }
    return [part for name, value in options.items() for part in (f"--{name}", str(value))]


def _other(arguments: list[str], address: str, setting: Setting) -> list[str]:
    command = (
        arguments if setting.other_mbps is None else ["iperf3", "-c", address, "-u", "-b", f"{setting.other_mbps}M"]
    )
    return [*command, "-t", str(setting.duration_s + 8)]


def _options(setting: Setting) -> list[str]:
    return [
        "-p", str(PORT), "-i", "0.1", "--get-server-output", "-t", str(setting.duration_s),
        *(() if setting.window is None else ("-w", setting.window)),
        *(("-P", str(setting.streams)) if setting.streams > 1 else ()),
        *setting.client,
        *(("--bidir",) if setting.bidir else ()),
    ]  # fmt: skip


def _set_buffer(lab: RunningLab, site: str, value: str) -> None:
    assert lab.exec(site, "sysctl", "-qw", f"net.ipv4.tcp_rmem={value}").returncode == 0


if __name__ == "__main__":
    sys.exit(main())
