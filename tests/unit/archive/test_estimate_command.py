"""`manage.py estimate`: its answers, its exit statuses, and that the document shows what it really prints."""

import io
import json
import re
import shlex
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monitor.archive.management.commands.estimate import Command

DOCUMENT = (Path(__file__).resolve().parents[3] / "docs" / "estimate.md").read_text()
EXAMPLES = re.findall(r"^\$ python manage\.py estimate (.*)\n((?:.*\n)*?)```", DOCUMENT, re.MULTILINE)

PATH = "--rtt-ms 100 --mss-bytes 1460"
KNOWN = f"{PATH} --window-bytes 1000000 --capacity-mbps 100"


def run(arguments):
    """(exit status, standard output, standard error) of the command; argparse's own errors are not in it."""
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
def test_the_document_shows_what_is_printed(arguments, printed):
    _, out, _ = run(arguments)

    assert lines(out) == lines(printed)


def test_the_document_has_examples():
    assert len(EXAMPLES) >= 2


@pytest.mark.parametrize(
    ("arguments", "headline"),
    [
        (f"{KNOWN} --loss-ratio 0", "about 80 Mbit/s, limited by window"),
        (f"{KNOWN} --loss-ratio 0 --streams 2", "about 100 Mbit/s, limited by capacity"),
        (f"{PATH} --loss-ratio 0.01", "at most 1.39 Mbit/s, limited by loss"),
        (f"{KNOWN} --loss-ratio 0 --sent 300", "between 1.39 Mbit/s and 84 Mbit/s"),
        (f"{KNOWN} --loss-ratio 1 --sent 10", "at most 1.13 kbit/s, limited by loss"),
        (f"{PATH} --loss-ratio 1", "0 bit/s: every packet is lost"),
    ],
)
def test_the_first_line_is_the_answer(arguments, headline):
    status, out, err = run(arguments)

    assert (status, out.splitlines()[0].partition(" (80%")[0], err) == (0, headline, "")


def test_what_is_not_known_and_what_is_a_bound_is_said():
    _, out, _ = run(f"{PATH} --loss-ratio 0 --sent 300 --window-bytes 1e6")

    assert out.splitlines()[1:4] == [
        "Unknown: capacity, which may limit it further.",
        "No loss seen; its 95% upper bound is used, 1%.",
        "Unknown whether loss is the limit: that takes 168,902 packets without a loss.",
    ]


def test_advice_says_what_is_now_and_what_is_wanted():
    _, out, _ = run(f"{PATH} --loss-ratio 0.0001 --window-bytes 250000 --streams 2 --times 3")

    after = lines(out)[lines(out).index("To multiply it by 3, to 120 Mbit/s:") + 1 :]
    assert [re.sub(" +", " ", line).strip() for line in after[:4]] == [
        "window at least 750 kB now 250 kB",
        "loss at most 0.0026% now 0.01%",
        "capacity at least 120 Mbit/s now unknown",
        "streams 6 now 2; instead of window and loss",
    ]


def test_json_has_the_figures_given_and_the_answer():
    table_rows = answer(f"{KNOWN} --loss-ratio 0.001 --sent 10000 --cc reno")

    assert table_rows["given"] == {
        "rtt_ms": 100.0,
        "rtt_p10_ms": None,
        "rtt_p90_ms": None,
        "loss_ratio": 0.001,
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
def test_no_ground_for_an_estimate_is_exit_status_1_with_what_to_give(loss):
    status, out, err = run(f"{PATH} {loss}")

    assert (status, out.splitlines()[0]) == (1, "no estimate")
    assert "give --window-bytes or --capacity-mbps" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--rtt-ms 0 --mss-bytes 1460 --loss-ratio 0", "--rtt-ms 0: give the RTT in milliseconds, above 0"),
        ("--rtt-ms -3 --mss-bytes 1460 --loss-ratio 0", "--rtt-ms -3: give the RTT in milliseconds, above 0"),
        (
            "--rtt-ms 5 --mss-bytes 0 --loss-ratio 0",
            "--mss-bytes 0: give the payload of a segment in bytes, 1 to 65,495",
        ),
        (f"{PATH} --loss-ratio 5", "--loss-ratio 5: give lost/sent, from 0 to 1, not a percentage"),
        (f"{PATH} --loss-ratio 0.001 --sent 100", "--loss-ratio 0.001: this is no whole number of 100 packets"),
        (f"{PATH} --loss-ratio 0 --sent 0", "--sent 0: give the sample size of the loss in packets, 1 or more"),
        (f"{PATH} --loss-ratio 0 --window-bytes 0", "--window-bytes 0: give bytes, 1 or more, or omit it"),
        (f"{PATH} --loss-ratio 0 --capacity-mbps -4", "--capacity-mbps -4: give a rate above 0, or omit it"),
        (f"{PATH} --loss-ratio 0 --streams 0", "--streams 0: give the number of parallel streams, 1 to a million"),
        (f"{PATH} --loss-ratio 0 --rtt-p10-ms 101", "--rtt-p10-ms 101: give at most the median, 100.0 ms"),
        (f"{PATH} --loss-ratio 0 --rtt-p90-ms 99", "--rtt-p90-ms 99: give at least the median, 100.0 ms"),
        (f"{PATH} --loss-ratio 0.1 --times 1", "--times 1: give the target speed-up, above 1"),
    ],
)
def test_an_invalid_figure_exits_with_2_and_names_the_option(arguments, message):
    status, out, err = run(arguments)

    assert (status, out) == (2, "")
    assert err.startswith(f"CommandError: {message}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--rtt-ms nan --mss-bytes 1460 --loss-ratio 0", '--rtt-ms: "nan" is not a number; write it as in'),
        ("--rtt-ms inf --mss-bytes 1460 --loss-ratio 0", '--rtt-ms: "inf" is not a number; write it as in'),
        (f"{PATH} --loss-ratio much", '--loss-ratio: "much" is not a number; write it as in'),
        (f"{PATH} --loss-ratio 0 --cc bbr", "--cc: invalid choice: 'bbr'"),
        (PATH, "the following arguments are required: --loss-ratio"),
    ],
)
def test_what_cannot_be_read_is_exit_status_2(arguments, message, capsys):
    status, out, _ = run(arguments)

    assert (status, out) == (2, "")
    assert message in capsys.readouterr().err


@given(
    rtt_ms=st.floats(0.001, 1e5),
    loss_ratio=st.just(0.0) | st.just(1.0) | st.floats(1e-12, 1),
    window_bytes=st.none() | st.floats(1, 1e12),
    capacity_mbps=st.none() | st.floats(1e-6, 1e9),
    streams=st.integers(1, 1000),
)
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
def test_any_figures_within_reason_have_an_answer_to_read(rtt_ms, loss_ratio, window_bytes, capacity_mbps, streams):
    arguments = f"--rtt-ms {rtt_ms} --mss-bytes 1460 --loss-ratio {loss_ratio} --streams {streams}"
    for option, value in (("--window-bytes", window_bytes), ("--capacity-mbps", capacity_mbps)):
        arguments += "" if value is None else f" {option} {value}"

    status, out, _ = run(arguments)

    assert status == (1 if out.startswith("no estimate") else 0)
    assert not re.search(r"\b(nan|inf|None)\b", out)
