"""A sweep of a real path: the command requests it, the lab's agents measure with iperf3, page and API show the
results."""

from __future__ import annotations

import json
import urllib.request

import pytest

from tests.e2e.stack import wait_for

WINDOWS_BYTES = (32 * 1024, 256 * 1024)
STREAMS = (1, 2)


@pytest.mark.timeout(900)
def test_a_small_grid_over_the_lab_prefers_the_larger_window(lab):
    """Rome to Oslo has 120 ms and 10 Mbit/s, 150 kB: a window of 32 KiB cannot fill it, 256 KiB can."""
    wait_for(lambda: lab.get("grid?period=hour")["newest_measured_at"], 180, "the agents deliver")

    output = lab.manage(
        "throughput", "sweep", "rome", "oslo", "--json",
        "--windows", "32K,256K", "--streams", "1,2", "--duration-s", "2", "--cc", "cubic",
    )  # fmt: skip
    sweep = json.loads(output)
    number = str(sweep["id"])
    for _ in range(3):
        # A busy machine may disturb a test: that is an outcome, and such cells are run again.
        if all(cell["outcome"] == "measured" for cell in sweep["cells"]):
            break
        assert all((cell["throughput_bps"] is None) == (cell["outcome"] != "measured") for cell in sweep["cells"])
        sweep = json.loads(lab.manage("throughput", "sweep", "--resume", number, "--retry", "--json"))

    stored = lab.get(f"sweeps/{number}")
    with urllib.request.urlopen(f"http://127.0.0.1:{lab.port}/sweeps/{number}/", timeout=30) as answer:
        page = answer.read().decode()
    print(lab.manage("throughput", "sweep", "--resume", number))
    rates = {(cell["streams"], cell["window_bytes"]): cell["throughput_bps"] for cell in sweep["cells"]}
    # With two streams a busy machine may never end in time; the page then has that outcome.
    assert all(rates[1, window] for window in WINDOWS_BYTES), sweep["cells"]
    assert all((cell["throughput_bps"] is None) == (cell["outcome"] != "measured") for cell in sweep["cells"])
    assert (sweep["lacking"] is None) == (None not in rates.values())
    assert {(cell["streams"], cell["window_bytes"]): cell["throughput_bps"] for cell in stored["cells"]} == rates
    assert set(rates) == {(streams, window) for streams in STREAMS for window in WINDOWS_BYTES}
    # One window per RTT; Linux gives up to twice the requested window.
    most_bps = 2 * WINDOWS_BYTES[0] * 8 / (sweep["rtt_ms"] / 1000)
    assert 0 < rates[1, WINDOWS_BYTES[0]] < most_bps
    assert rates[1, WINDOWS_BYTES[1]] > 1.5 * rates[1, WINDOWS_BYTES[0]]
    [knee] = sweep["knees"]
    assert knee["throughput_bps"] >= 0.9 * max(rate for rate in rates.values() if rate)
    assert knee["sentences"][0] in page.replace("&#x27;", "'")
