"""The lab, measured by independent tools: ping(8), iperf3, plain sockets, and the kernel's counters in /proc."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from math import comb
from pathlib import Path
from shutil import rmtree

import pytest

from tests.lab import RunningLab, wait_until, with_open_tun, without_root

RTT_MS = {("bern", "rome"): 20.0, ("bern", "oslo"): 60.0, ("rome", "oslo"): 120.0}

StartLab = Callable[..., RunningLab]


def ping(lab: RunningLab, source: str, address: str, count: int, spacing_s: float = 0.05) -> str:
    """Output of ping(8), which exits 1 on total loss."""
    done = lab.exec(source, "ping", "-n", "-c", str(count), "-i", str(spacing_s), "-W", "2", address)
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def round_trips_ms(output: str) -> list[float]:
    return [float(text) for text in re.findall(r"time=([\d.]+) ms", output)]


def sequence_numbers(output: str) -> list[int]:
    return [int(text) for text in re.findall(r"icmp_seq=(\d+)", output)]


def user_namespace_prefix() -> list[str]:
    """Command prefix for an ordinary user who may create user namespaces; skips the test where that is forbidden."""
    prefix = [*with_open_tun(), *without_root()]
    tried = subprocess.run([*prefix, "unshare", "--user", "--net", "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"this kernel gives an ordinary user no namespaces: {tried.stderr.strip()}")
    return prefix


@contextmanager
def iperf_server(lab: RunningLab, site: str) -> Iterator[subprocess.Popen[str]]:
    """An iperf3 server at a site, listening."""
    server = lab.popen(site, "iperf3", "--server", "--one-off", "--forceflush")
    try:
        assert server.stdout is not None
        while "listening" not in (line := server.stdout.readline()):
            assert line, "iperf3 ended before it listened"
        yield server
    finally:
        server.kill()
        server.wait()


def iperf(lab: RunningLab, source: str, destination: str, *options: str) -> dict[str, object]:
    """The `end` of iperf3's JSON of a transfer."""
    with iperf_server(lab, destination):
        done = lab.exec(source, "iperf3", "--json", "--client", lab.address(destination), *options)
    assert done.returncode == 0, done.stdout
    end = json.loads(done.stdout)["end"]
    assert isinstance(end, dict)
    return end


def binomial_interval(trials: int, chance: float, confidence: float) -> tuple[int, int]:
    """The counts that contain `confidence` of binomial draws, by summing the probabilities."""
    tail, low, high, below = (1 - confidence) / 2, 0, trials, 0.0
    for count in range(trials + 1):
        below += comb(trials, count) * chance**count * (1 - chance) ** (trials - count)
        if below < tail:
            low = count + 1
        if below >= 1 - tail:
            high = count
            break
    return low, high


@pytest.mark.parametrize(("pair", "rtt_ms"), RTT_MS.items(), ids=lambda value: str(value))
def test_ping_measures_the_rtt_of_the_scenario(lab: RunningLab, pair: tuple[str, str], rtt_ms: float) -> None:
    rtts_ms = round_trips_ms(ping(lab, pair[0], lab.address(pair[1]), count=20))

    assert len(rtts_ms) >= 10
    assert min(rtts_ms) >= rtt_ms
    assert statistics.median(rtts_ms) <= rtt_ms + 2.0


def test_ipv6_has_the_same_path(lab: RunningLab) -> None:
    rtts_ms = round_trips_ms(ping(lab, "bern", "fd77:0:0:2::1", count=5))

    assert 20.0 <= statistics.median(rtts_ms) <= 22.0


def test_a_20_ms_path_keeps_its_rtt_during_a_20_mbps_transfer(lab: RunningLab) -> None:
    lab.set("bern-oslo", "--rtt-ms", "20", "--loss", "0", "--both")
    with iperf_server(lab, "rome"):
        transfer = lab.popen("bern", "iperf3", "--client", lab.address("rome"), "--time", "4")
        try:
            wait_until(lambda: lab.counts("bern", "rome").forwarded > 1000, "the transfer is under way")
            rtts_ms = round_trips_ms(ping(lab, "bern", lab.address("oslo"), count=30))
            assert transfer.poll() is None, "the transfer ended before the pings did"
        finally:
            transfer.kill()
            transfer.wait()

    assert len(rtts_ms) == 30
    assert min(rtts_ms) >= 20.0
    assert statistics.median(rtts_ms) <= 21.0


def test_measured_loss_matches_the_relays_count_and_the_setting(lab: RunningLab) -> None:
    lab.set("bern-rome", "--loss", "0.1", "--both")

    output = ping(lab, "bern", lab.address("rome"), count=500, spacing_s=0.004)

    received = len(round_trips_ms(output))
    there, back = lab.counts("bern", "rome"), lab.counts("rome", "bern")
    assert there.received == 500
    assert there.forwarded == 500 - there.dropped_loss == back.received
    assert back.forwarded == received
    low, high = binomial_interval(500, 1 - 0.9**2, 0.99)
    assert low <= 500 - received <= high


def test_total_loss_affects_its_direction_only(lab: RunningLab) -> None:
    lab.set("bern-rome", "--loss", "1")

    assert round_trips_ms(ping(lab, "bern", lab.address("rome"), count=5)) == []
    assert lab.counts("bern", "rome").dropped_loss == 5
    assert lab.path("rome", "bern").settings.loss_ratio == 0.0


def test_the_policer_drops_excess_packets_and_delays_none(lab: RunningLab) -> None:
    # The 84 bytes of a request are 67 ms at 0.01 Mbit/s: of 200 requests 5 ms apart, 15 per second get their tokens.
    lab.set("bern-rome", "--policer-mbps", "0.01", "--policer-bytes", "100")

    rtts_ms = round_trips_ms(ping(lab, "bern", lab.address("rome"), count=200, spacing_s=0.005))

    counts = lab.counts("bern", "rome")
    assert counts.received == 200
    assert 10 <= len(rtts_ms) == 200 - counts.dropped_policer <= 40
    assert statistics.median(rtts_ms) <= 21.0
    assert re.search(r"^bern → rome .* 0\.01 ", lab.command("status").stdout, re.MULTILINE)
    lab.set("bern-rome", "--policer-mbps", "unlimited")
    assert len(round_trips_ms(ping(lab, "bern", lab.address("rome"), count=20, spacing_s=0.005))) == 20


def test_a_tcp_transfer_gets_exactly_the_rate(lab: RunningLab) -> None:
    end = iperf(lab, "bern", "rome", "--time", "4", "--omit", "1")

    received_bps = end["sum_received"]["bits_per_second"]  # type: ignore[index]
    assert 18e6 <= received_bps <= 20e6


def test_packets_dropped_by_the_queue_are_lost_for_iperf3(lab: RunningLab) -> None:
    end = iperf(lab, "bern", "rome", "--udp", "--bitrate", "30M", "--time", "2", "--length", "1200")

    counts = lab.counts("bern", "rome")
    overrun = sum(site.overrun for site in lab.status().sites)
    dropped = counts.dropped_queue + overrun + full_receive_buffers(lab, "rome")
    assert counts.dropped_loss == 0
    assert counts.dropped_queue > 100
    # Losses after the last received datagram are unknown to iperf3: at most those sent during 100 ms of queue and 10 ms
    # of delay, 3.1 datagrams per millisecond.
    assert dropped - 350 <= end["sum"]["lost_packets"] <= dropped  # type: ignore[index]


def full_receive_buffers(lab: RunningLab, site: str) -> int:
    """Datagrams that the site's kernel dropped because their reader was too slow (Udp RcvbufErrors)."""
    names, values = (
        line.split()[1:]
        for line in lab.exec(site, "cat", "/proc/net/snmp").stdout.splitlines()
        if line.startswith("Udp:")
    )
    return int(values[names.index("RcvbufErrors")])


def test_settings_change_while_the_lab_runs(lab: RunningLab) -> None:
    before = round_trips_ms(ping(lab, "bern", lab.address("rome"), count=5))

    lab.set("bern-rome", "--rtt-ms", "50")

    after = round_trips_ms(ping(lab, "bern", lab.address("rome"), count=5))
    assert 20.0 <= statistics.median(before) <= 22.0
    assert 50.0 <= statistics.median(after) <= 52.0


def test_rtts_can_differ_by_direction(lab: RunningLab) -> None:
    lab.set("bern-rome", "--delay-ms", "40")

    rtts_ms = round_trips_ms(ping(lab, "bern", lab.address("rome"), count=5))

    assert 50.0 <= statistics.median(rtts_ms) <= 52.0


def test_ping_reports_each_duplicate(lab: RunningLab) -> None:
    lab.set("rome-bern", "--duplicate", "0.3")

    output = ping(lab, "bern", lab.address("rome"), count=100, spacing_s=0.005)

    assert lab.counts("rome", "bern").duplicated > 10
    assert output.count("(DUP!)") == lab.counts("rome", "bern").duplicated


def test_ping_reports_each_reordered_packet(lab: RunningLab) -> None:
    lab.set("rome-bern", "--reorder", "0.1", "--reorder-hold-ms", "60")

    numbers = sequence_numbers(ping(lab, "bern", lab.address("rome"), count=200, spacing_s=0.01))

    late = sum(number < max(numbers[:index], default=0) for index, number in enumerate(numbers))
    assert len(numbers) == 200
    assert late > 5
    assert lab.counts("rome", "bern").reordered == late


def test_jitter_varies_the_rtts_and_keeps_the_order(lab: RunningLab) -> None:
    lab.set("bern-rome", "--jitter-ms", "8")

    output = ping(lab, "bern", lab.address("rome"), count=200, spacing_s=0.01)

    rtts_ms, numbers = round_trips_ms(output), sequence_numbers(output)
    assert numbers == sorted(numbers)
    assert min(rtts_ms) >= 12.0
    assert max(rtts_ms) - min(rtts_ms) > 6.0
    assert 17.0 <= statistics.mean(rtts_ms) <= 24.0


def test_counters_can_be_reset(lab: RunningLab) -> None:
    ping(lab, "bern", lab.address("rome"), count=3)

    assert lab.command("reset-counters").returncode == 0

    assert lab.counts("bern", "rome").received == 0


def test_exec_passes_on_exit_status_and_signals(lab: RunningLab) -> None:
    assert lab.exec("oslo", "sh", "-c", "exit 7").returncode == 7
    # Python ignores SIGPIPE; `yes` would complain about the closed pipe instead of being ended by it.
    assert lab.exec("oslo", "sh", "-c", "yes | head -1").stderr == ""


@pytest.mark.parametrize("rootless", [False, True])
def test_a_command_can_end_with_the_lab(start_lab: StartLab, rootless: bool) -> None:
    lab = start_lab("three-sites", prefix=user_namespace_prefix() if rootless else [])
    with lab.popen("--end-with-lab", "bern", "sh", "-c", "echo inside; exec sleep 600") as command:
        try:
            assert command.stdout is not None
            assert command.stdout.readline() == "inside\n"
            assert command.poll() is None

            lab.kill()

            wait_until(lambda: command.poll() is not None, "the command has ended")
        finally:
            command.kill()
    assert command.returncode == -signal.SIGTERM


def test_error_messages_have_a_fix(lab: RunningLab) -> None:
    missing_command = lab.exec("oslo", "no-such-command")
    unknown_site = lab.exec("osla", "true")
    unknown_path = lab.command("set", "bern-berlin", "--loss", "0.1")
    impossible = lab.command("set", "bern-rome", "--loss", "2")
    no_centre = lab.command("set", "--centre", "down")

    assert (missing_command.returncode, missing_command.stderr) == (
        1,
        "lab: no-such-command: No such file or directory\n",
    )
    assert (unknown_site.returncode, unknown_site.stderr) == (
        1,
        'lab: site "osla" is not defined (did you mean "oslo"?)\n',
    )
    assert unknown_path.stderr == (
        'lab: "bern-berlin" is not a path: write SRC-DST with two different sites of bern, rome, oslo\n'
    )
    assert impossible.returncode == 2
    assert "--loss" in impossible.stderr
    assert "from 0 to 1" in impossible.stderr
    assert lab.path("bern", "rome").settings.loss_ratio == 0.0
    assert no_centre.stderr.startswith("lab: ")
    assert "--centre-socket" in no_centre.stderr


def test_a_second_lab_in_the_same_folder_is_refused(lab: RunningLab) -> None:
    background = lab.command("up", "three-sites")
    foreground = lab.command("up", "three-sites", "--foreground")

    for second in (background, foreground):
        assert second.returncode == 1
        assert f"already running in {lab.run_dir}" in second.stderr
    assert lab.status().lab.pid == lab.pid


def test_a_site_without_its_device_ends_the_lab_with_the_reason(lab: RunningLab) -> None:
    lab.exec("rome", "ip", "link", "set", "wan0", "down")
    assert round_trips_ms(ping(lab, "bern", lab.address("rome"), count=2)) == []
    assert lab.counts("bern", "rome").failed == 2

    lab.exec("rome", "ip", "link", "delete", "wan0")

    wait_until(lambda: "restart the lab" in lab.log, "the lab says why it ends")
    assert 'lab: site "rome" lost its wan0: ' in lab.log


def test_sigterm_ends_the_lab_and_cleans_up(start_lab: StartLab) -> None:
    lab = start_lab("three-sites")
    run_dir = lab.run_dir
    os.kill(lab.pid, signal.SIGTERM)

    wait_until(lambda: not (run_dir / "lab.json").exists(), "the state file is gone")

    assert not (run_dir / "control.sock").exists()
    assert lab.stop() == 0


def test_up_and_down_in_the_background(namespaces_required: None, tmp_path: Path) -> None:
    lab = RunningLab("three-sites")
    with ExitStack() as cleanup:
        cleanup.callback(rmtree, lab.run_dir)
        started = lab.command("up", "three-sites", "--centre-socket", str(tmp_path / "centre"))
        cleanup.callback(lab.command, "down")
        assert started.returncode == 0, started.stderr
        assert started.stdout.startswith("lab ready: three-sites (Three test sites), 3 sites, 6 paths, pid ")
        assert "bern  10.77.1.1  fd77:0:0:1::1  Bern" in started.stdout
        pid = lab.pid
        sleeper = cleanup.enter_context(lab.popen("bern", "sh", "-c", "echo inside; exec sleep 600"))
        cleanup.callback(sleeper.kill)
        assert sleeper.stdout is not None
        assert sleeper.stdout.readline() == "inside\n"
        table = lab.command("status").stdout
        assert re.search(r"^bern → oslo +30 +0 +0\.02 +20 +100 ", table, re.MULTILINE)

        ended = lab.command("down")

        stopped, still_there = ended.stdout.splitlines()
        assert (ended.returncode, stopped) == (0, "lab three-sites stopped")
        assert f"pid {sleeper.pid} at bern is still running" in still_there
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the process is gone")
        after = lab.command("status")
        assert (after.returncode, after.stderr.split(":")[1]) == (1, f" no lab is running in {lab.run_dir}")


def processes_of(namespaces: set[int]) -> list[int]:
    """Process ids in one of these network namespaces, or with such a namespace open."""
    replies = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            links = [entry / "ns" / "net", *fds(entry)]
            if any(namespace_of(link) in namespaces for link in links):
                replies.append(int(entry.name))
    return replies


def fds(process: Path) -> list[Path]:
    try:
        return list((process / "fd").iterdir())
    except OSError:
        return []


def namespace_of(link: Path) -> int | None:
    """The inode in a link like net:[4026532008]."""
    try:
        match = re.fullmatch(r"net:\[(\d+)\]", str(link.readlink()))
    except OSError:
        return None
    return None if match is None else int(match[1])


def test_kill_9_leaves_no_process_and_no_namespace(start_lab: StartLab, tmp_path: Path) -> None:
    lab = start_lab("three-sites", "--centre-socket", str(tmp_path / "centre"))
    state = lab.status().lab
    links = (Path(f"/proc/{state.pid}/fd/{site.net_fd}") for site in state.sites.values())
    namespaces = {inode for link in links if (inode := namespace_of(link)) is not None}
    children = Path(f"/proc/{state.pid}/task/{state.pid}/children").read_text().split()
    assert len(namespaces) == 3
    assert len(children) == 1
    assert state.pid in processes_of(namespaces)

    lab.kill()

    wait_until(lambda: not Path(f"/proc/{children[0]}").exists(), "the forwarding process is gone")
    assert processes_of(namespaces) == []
    lab.start()
    assert round_trips_ms(ping(lab, "bern", lab.address("rome"), count=2)) != []


@contextmanager
def centre(path: Path) -> Iterator[None]:
    """A fake centre on a Unix socket: echoes the received text in capitals when the sender closes."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as stream:
                connection.sendall(stream.read().upper())

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
        path.unlink()


ASK_THE_CENTRE = """
import socket, sys
with socket.create_connection(("127.0.0.1", 8000), timeout=10) as c:
    c.sendall(b"plan " * 100_000)
    c.shutdown(socket.SHUT_WR)
    got = b"".join(iter(lambda: c.recv(65536), b""))
print(len(got), got[:5])
"""


def ask_the_centre(lab: RunningLab, site: str) -> str | None:
    """A site's answer from the centre; None if it cannot connect."""
    done = lab.exec(site, sys.executable, "-c", ASK_THE_CENTRE)
    return done.stdout.strip() if done.returncode == 0 and not done.stdout.startswith("0 ") else None


def test_every_site_reaches_the_centre_until_it_is_disconnected(start_lab: StartLab, tmp_path: Path) -> None:
    lab = start_lab("three-sites", "--centre-socket", str(tmp_path / "centre"))
    assert ask_the_centre(lab, "oslo") is None, "there is no centre yet"

    with centre(tmp_path / "centre"):
        assert {ask_the_centre(lab, site) for site in ("bern", "rome", "oslo")} == {"500000 b'PLAN '"}
        lab.set("--centre", "down")
        assert lab.status().centre == "down"
        assert ask_the_centre(lab, "oslo") is None
        lab.set("--centre", "up")
        assert ask_the_centre(lab, "oslo") == "500000 b'PLAN '"

    assert ask_the_centre(lab, "oslo") is None, "the centre is away"


def test_the_connection_to_the_centre_is_restored_when_it_dies(start_lab: StartLab, tmp_path: Path) -> None:
    lab = start_lab("three-sites", "--centre-socket", str(tmp_path / "centre"))
    children = Path(f"/proc/{lab.pid}/task/{lab.pid}/children")
    first = int(children.read_text())

    os.kill(first, signal.SIGKILL)

    wait_until(lambda: children.read_text().strip() not in ("", str(first)), "there is a new process")
    with centre(tmp_path / "centre"):
        wait_until(lambda: ask_the_centre(lab, "rome") is not None, "the centre is reached again")


def test_a_broken_client_gets_an_error_and_stops_nothing(lab: RunningLab) -> None:
    silent = socket.socket(socket.AF_UNIX)
    confused = socket.socket(socket.AF_UNIX)
    with silent, confused:
        for client in (silent, confused):
            client.settimeout(10)
            client.connect(str(lab.run_dir / "control.sock"))
        confused.sendall(b'{"do": "explode"}\n')

        assert "explode" in json.loads(confused.makefile().readline())["error"]
        assert confused.recv(1) == b""
        assert lab.status().lab.scenario == "three-sites"


def test_a_thousand_silent_clients_do_not_end_the_lab(lab: RunningLab) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with ExitStack() as cleanup:
        cleanup.callback(resource.setrlimit, resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE))
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
        for _ in range(1050):
            client = cleanup.enter_context(socket.socket(socket.AF_UNIX))
            client.connect(str(lab.run_dir / "control.sock"))
        assert client.recv(1) == b"", "the last client is refused"

    assert lab.status().lab.scenario == "three-sites"


def test_packets_without_a_destination_are_counted_at_their_site(lab: RunningLab) -> None:
    assert round_trips_ms(ping(lab, "oslo", "10.77.200.1", count=3)) == []

    assert {site.name: site.unroutable for site in lab.status().sites} == {"bern": 0, "rome": 0, "oslo": 3}


def test_without_privileges_the_error_names_the_fix(namespaces_required: None) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give all its rights away, user namespaces included")
    lab = RunningLab("three-sites", prefix=["setpriv", "--bounding-set=-all"])
    try:
        done = lab.command("up", "three-sites")
    finally:
        lab.run_dir.joinpath("lab.log").unlink()
        lab.run_dir.joinpath("lab.lock").unlink()
        lab.run_dir.rmdir()

    assert done.returncode == 1
    assert done.stderr.startswith("lab: no root (CAP_SYS_ADMIN and CAP_NET_ADMIN), and no user namespace either: ")
    assert "run as root" in done.stderr


def test_the_lab_runs_without_root(start_lab: StartLab) -> None:
    lab = start_lab("three-sites", prefix=user_namespace_prefix())

    state = lab.status().lab
    assert state.user_fd is not None
    assert Path(f"/proc/{state.pid}").stat().st_uid == (os.geteuid() or 65534)
    rtts_ms = round_trips_ms(ping(lab, "bern", lab.address("rome"), count=5, spacing_s=0.2))
    assert 20.0 <= min(rtts_ms) <= 22.0
    lab.set("bern-rome", "--loss", "1")
    assert lab.counts("bern", "rome").received == 5
