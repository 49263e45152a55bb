"""Slow start after idle in the lab, with the kernel's setting on and off."""

import json
import sys

from tests.lab import RunningLab

RTT_MS, PORT = 100, 5202
SYSCTL = "sysctl -qw net.ipv4.tcp"


def test_the_window_falls_in_a_pause_only_with_the_kernels_setting(namespaces_required):
    """100 ms and 20 Mbit/s are a window of about 170 segments, four round trips from the initial window of 10."""
    command = f"{sys.executable} -m probes idle-restart --port {PORT}"
    with RunningLab("three-sites") as lab:
        lab.set("bern-rome", "--both", "--rtt-ms", str(RTT_MS), "--rate-mbps", "20", "--queue-ms", "200")
        listen = f"{command} --listen --from {lab.address('bern')} --wait-s 60"
        test = f"{command} {lab.address('rome')} --json --duration-s 3 --pause-s 4"
        # Until the far end listens; it takes one test, and is started again for the next.
        measure = f"until {test}; do sleep 0.2; done"
        steps = (
            f"{SYSCTL}_congestion_control=reno net.ipv4.tcp_no_metrics_save=1",
            f"{SYSCTL}_slow_start_after_idle=1",
            measure,
            f"{SYSCTL}_slow_start_after_idle=0",
            measure,
        )
        far_end = lab.popen("rome", "sh", "-c", f"{listen}; {listen}")
        try:
            done = lab.exec("bern", "sh", "-c", "; ".join(steps), timeout_s=150)
        finally:
            far_end.terminate()
            far_end.communicate()

    restarted, kept = (json.loads(line) for line in done.stdout.splitlines())
    if restarted["restarted"] is not None:
        assert restarted["restarted"], restarted["sentence"]
        assert restarted["cwnd_after"] < restarted["cwnd_before"]
        assert restarted["back_s"] is None or restarted["back_s"] >= RTT_MS / 1e3
        assert "set net.ipv4.tcp_slow_start_after_idle to 0 at the sender" in restarted["sentence"]
    if kept["restarted"] is not None:
        assert not kept["restarted"], kept["sentence"]
        assert "set net" not in kept["sentence"]
    told = [result["sentence"].split(":")[0] for result in (restarted, kept)]
    assert told[0] in ("Slow start after idle", "Cannot tell")
    assert told[1] in ("No slow start after idle", "Cannot tell")
