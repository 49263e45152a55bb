"""`manage.py estimate`: its answers, its exit statuses, and that the document shows its real output."""

import io
import json
import math
import re
import shlex
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.archive.management.commands.estimate import Command
from tests.facts import lacks

DOCUMENT = (Path(__file__).resolve().parents[3] / "docs" / "estimate.md").read_text()
EXAMPLES = re.findall(r"^\$ python manage\.py estimate (.*)\n((?:.*\n)*?)```", DOCUMENT, re.MULTILINE)

PATH = "--rtt-ms 100 --mss-bytes 1460 --loss-from pings"
KNOWN = f"{PATH} --window-bytes 1000000 --capacity-mbps 100"


def run(arguments):
    """(exit status, standard output, standard error) of the command, without argparse's own errors."""
    out, err = io.StringIO(), io.StringIO()
    try:
        Command(stdout=out, stderr=err, no_color=True).run_from_argv(["manage.py", "estimate", *shlex.split(arguments)])
    except SystemExit as ended:
        return ended.code, out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def answer(arguments):
    status, out, err = run(f"{arguments} --json")
    assert (status, err) == (0, "")
    return json.loads(out, parse_constant=pytest.fail)


def lines(text):
    return [line.rstrip() for line in text.rstrip().splitlines()]


@pytest.mark.parametrize(("arguments", "printed"), EXAMPLES)
def test_the_document_shows_the_real_output(arguments, printed):
    _, out, _ = run(arguments)

    assert lines(out) == lines(printed)


def test_the_document_has_an_example():
    assert EXAMPLES


@pytest.mark.parametrize(
    ("arguments", "facts", "limits"),
    [
        (f"{KNOWN} --loss-ratio 0", ["about 80 Mbit/s"], ["window"]),
        (f"{KNOWN} --loss-ratio 0 --streams 2", ["about 100 Mbit/s"], ["capacity"]),
        (f"{PATH} --loss-ratio 0.01", ["at most 1.39 Mbit/s"], ["loss"]),
        (f"{PATH} --loss-ratio 1%", ["at most 1.39 Mbit/s"], ["loss"]),
        (f"{KNOWN} --loss-ratio 0 --sent 300", ["between 1.39 Mbit/s", " 84 Mbit/s"], []),
        (f"{KNOWN} --loss-ratio 1 --sent 10", ["at most 1.13 kbit/s"], ["loss"]),
        (f"{PATH} --loss-ratio 1", ["0 bit/s", "every packet is lost"], []),
    ],
)
def test_the_first_line_is_the_answer(arguments, facts, limits):
    status, out, err = run(arguments)

    headline = out.splitlines()[0].partition(" (80%")[0]
    assert (status, err) == (0, "")
    assert headline.startswith(facts[0])
    assert lacks(headline, *facts) == []
    assert re.findall(r"\b(?:window|capacity|loss)\b", headline) == limits


def test_unknown_limits_and_bounds_are_printed():
    _, out, _ = run(f"{PATH} --loss-ratio 0 --sent 300 --window-bytes 1e6")

    unknown, bound, packets = out.splitlines()[1:4]
    assert lacks(unknown, "Unknown: capacity,", "may limit it") == []
    assert lacks(bound, "No loss seen", " 95% upper bound", " 1%") == []
    assert lacks(packets, "Unknown whether loss", " 168,902 packets without a loss") == []


def test_advice_has_current_and_needed_values():
    _, out, _ = run(f"{PATH} --loss-ratio 0.0001 --window-bytes 250000 --streams 2 --times 3")

    [head] = [place for place, line in enumerate(lines(out)) if lacks(line, " by 3,", " 120 Mbit/s:") == []]
    window, loss, capacity, streams = (" ".join(line.split()) for line in lines(out)[head + 1 : head + 5])
    assert lacks(window, "window ", "at least 750 kB", "now 250 kB") == []
    assert lacks(loss, "loss ", "at most 0.0026%", "now 0.01%") == []
    assert lacks(capacity, "capacity ", "at least 120 Mbit/s", "now unknown") == []
    assert lacks(streams, "streams 6 ", "now 2;", "instead of window and loss") == []


def test_json_has_the_figures_given_and_the_answer():
    table_rows = answer(f"{KNOWN} --loss-ratio 0.001 --sent 10000 --cc reno")

    assert table_rows["given"] == {
        "rtt_ms": 100.0,
        "rtt_p10_ms": None,
        "rtt_p90_ms": None,
        "loss_ratio": 0.001,
        "loss_is_retransmits": False,
        "sent": 10_000,
        "mss_bytes": 1460.0,
        "window_bytes": 1e6,
        "capacity_bps": 1e8,
        "control": "reno",
        "streams": 1,
    }
    assert (table_rows["sign"], table_rows["binding"], table_rows["not_known"]) == ("about", "loss", [])
    assert table_rows["low_bps"] < table_rows["throughput_bps"] < table_rows["high_bps"]
    assert [limit["name"] for limit in table_rows["limits"]] == ["window", "loss", "capacity"]
    assert table_rows["reno_index_bps"] == pytest.approx(1460 * 8 / 0.1 / 0.001**0.5)
    assert table_rows["at_this_rate"]["buffer_bytes"] == pytest.approx(table_rows["throughput_bps"] * 0.1 / 8)


@pytest.mark.parametrize("loss", ["--loss-ratio 0", "--loss-ratio 0 --sent 1000000"])
def test_without_an_estimate_it_exits_with_1_and_names_options(loss):
    status, out, err = run(f"{PATH} {loss}")

    assert (status, out.splitlines()[0]) == (1, "no estimate")
    assert "give --window-bytes or --capacity-mbps" in err


@pytest.mark.parametrize(
    ("arguments", "option", "facts"),
    [
        ("--rtt-ms 0 --mss-bytes 1460 --loss-ratio 0", "--rtt-ms 0", ["RTT in milliseconds", "above 0,"]),
        ("--rtt-ms -3 --mss-bytes 1460 --loss-ratio 0", "--rtt-ms -3", ["RTT in milliseconds", "above 0,"]),
        ("--rtt-ms 5 --mss-bytes 0 --loss-ratio 0", "--mss-bytes 0", ["payload", " bytes", " 1 to 65,495"]),
        (f"{PATH} --loss-ratio 0.001 --sent 100", "--loss-ratio 0.001", ["no whole number", " 100 packets"]),
        (f"{PATH} --loss-ratio 0 --sent 0", "--sent 0", ["packets", " 1 or more"]),
        (f"{PATH} --loss-ratio 0 --window-bytes 0", "--window-bytes 0", ["bytes", " 1 or more", "omit it"]),
        (f"{PATH} --loss-ratio 0 --capacity-mbps -4", "--capacity-mbps -4", ["a rate above 0,", "omit it"]),
        (f"{PATH} --loss-ratio 0 --streams 0", "--streams 0", ["streams", " 1 to a million"]),
        (f"{PATH} --loss-ratio 0 --rtt-p10-ms 101", "--rtt-p10-ms 101", ["at most the median", " 100.0 ms"]),
        (f"{PATH} --loss-ratio 0 --rtt-p90-ms 99", "--rtt-p90-ms 99", ["at least the median", " 100.0 ms"]),
        (f"{PATH} --loss-ratio 0.1 --times 1", "--times 1", ["speed-up", "above 1 "]),
    ],
)
def test_an_invalid_figure_exits_with_2_and_names_the_option(arguments, option, facts):
    status, out, err = run(arguments)

    assert (status, out) == (2, "")
    assert err.startswith(f"CommandError: {option}: ")
    assert lacks(err, *facts) == []


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        ("--rtt-ms nan --mss-bytes 1460 --loss-ratio 0", ["--rtt-ms: ", '"nan"', "not a number"]),
        ("--rtt-ms inf --mss-bytes 1460 --loss-ratio 0", ["--rtt-ms: ", '"inf"', "not a number"]),
        (f"{PATH} --loss-ratio much", ["--loss-ratio: ", '"much"', " 0 to 1", "20%"]),
        (f"{PATH} --loss-ratio 5", ["--loss-ratio: ", '"5"', " 0 to 1", "0.05 or 5%"]),
        (f"{PATH} --loss-ratio 500", ["--loss-ratio: ", '"500"', " 0 to 1", "20%"]),
        (f"{PATH} --loss-ratio=-0.1", ["--loss-ratio: ", '"-0.1"', " 0 to 1"]),
        (f"{PATH} --loss-ratio 101%", ["--loss-ratio: ", '"101%"', " 0 to 1"]),
        (f"{PATH} --loss-ratio 0 --cc bbr", ["--cc: invalid choice: 'bbr'"]),
        (PATH, ["required: --loss-ratio"]),
    ],
)
def test_an_unparsable_option_exits_with_2(arguments, facts, capsys):
    status, out, _ = run(arguments)

    assert (status, out) == (2, "")
    assert lacks(capsys.readouterr().err, *facts) == []


@given(
    rtt_ms=st.floats(0.001, 1e5),
    loss_ratio=st.just(0.0) | st.just(1.0) | st.floats(1e-12, 1),
    window_bytes=st.none() | st.floats(1, 1e12),
    capacity_mbps=st.none() | st.floats(1e-6, 1e9),
    streams=st.integers(1, 1000),
)
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
def test_any_reasonable_figures_have_a_readable_answer(rtt_ms, loss_ratio, window_bytes, capacity_mbps, streams):
    arguments = f"--rtt-ms {rtt_ms} --mss-bytes 1460 --loss-ratio {loss_ratio} --streams {streams} --loss-from pings"
    for option, value in (("--window-bytes", window_bytes), ("--capacity-mbps", capacity_mbps)):
        arguments += "" if value is None else f" {option} {value}"

    status, out, _ = run(arguments)

    assert status == (1 if out.startswith("no estimate") else 0)
    assert not re.search(r"\b(nan|inf|None)\b", out)


def test_a_loss_without_its_source_is_a_usage_error():
    status, _, err = run("--rtt-ms 100 --mss-bytes 1460 --loss-ratio 0.01")

    assert status == 2
    assert lacks(err, "--loss-from", "which loss", "pings", "retransmits") == []
    assert run("--rtt-ms 100 --mss-bytes 1460 --loss-ratio 0 --window-bytes 1e6")[0] == 0


@pytest.mark.parametrize("sent", [None, 10_000])
@pytest.mark.parametrize("ratio", [0.0004, 0.01, 0.3, 1.0])
@pytest.mark.parametrize("window_bytes", [None, 64e3, 4e6])
@pytest.mark.parametrize("capacity_mbps", [None, 200])
def test_a_retransmit_rate_gives_no_upper_bound(sent, ratio, window_bytes, capacity_mbps):
    """The answer is never below the window and the capacity, and loss alone gives none."""
    given = {"sent": sent, "window-bytes": window_bytes, "capacity-mbps": capacity_mbps}
    options = " ".join(f"--{name} {value:g}" for name, value in given.items() if value is not None)
    known_bps = min(8 * (window_bytes or math.inf) / 0.1, 1e6 * (capacity_mbps or math.inf))

    status, out, err = run(
        f"--rtt-ms 100 --mss-bytes 1460 --loss-ratio {ratio} --loss-from retransmits {options} --json"
    )

    if known_bps == math.inf:
        assert (status, "no estimate" in err) == (1, True)
        return
    result = json.loads(out)
    by_loss = next(limit for limit in result["limits"] if limit["name"] == "loss")
    assert (by_loss["sign"], by_loss["high_bps"]) == ("at least", None)
    assert result["binding"] != "loss"
    assert result["high_bps"] == pytest.approx(1.05 * known_bps)
    assert result["throughput_bps"] in (None, pytest.approx(known_bps))
