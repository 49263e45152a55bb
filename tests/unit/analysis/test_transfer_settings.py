"""Verdicts on reports whose limit was set in the lab: the published score, and the claims that it rests on."""

import dataclasses
from collections import Counter
from pathlib import Path

import pytest
from msgspec import structs

from monitor.analysis.transfer import HostState, Verdict, diagnose
from tests.diagnosis.generated import Moment, recorded, steady
from tests.diagnosis.reading import recording
from tests.diagnosis.reports import joined
from tests.diagnosis.reports import recorded as recorded_reports
from tests.diagnosis.score import FORMS, RIGHT, counts, diagnosed, run_of, tables

DOCUMENT = (Path(__file__).parents[3] / "docs" / "method" / "diagnosis.md").read_text()
REPORTED_RTT = [form for form in FORMS if "without RTT" not in form]


def test_the_published_score_is_that_of_this_code():
    assert tables() in DOCUMENT


def test_the_other_half_of_the_settings_is_seldom_wrong():
    judged = counts(tuned=False)
    total = sum((of_truth for form in REPORTED_RTT for of_truth in judged[form].values()), Counter())

    assert total["wrong"] < 0.02 * total.total()
    assert total["unclear"] < 0.4 * total.total()


def test_each_truth_has_settings_in_both_halves():
    for tuned in (True, False):
        assert {setting.truth for setting, _ in recorded_reports() if setting.is_for_tuning == tuned} == set(RIGHT)


@pytest.mark.parametrize("form", list(FORMS))
def test_random_loss_on_a_link_with_room_is_no_bottleneck(form):
    """Also where the delay varies by itself; at 0.1 s, one of them varies by 80% of its RTT."""
    verdicts = Counter(
        diagnosed(setting, FORMS[form](report)).verdict
        for setting, report in recorded_reports()
        if setting.truth == "loss"
    )

    assert verdicts[Verdict.BOTTLENECK_QUEUE] <= (1 if form.startswith("0.1 s") else 0), verdicts


@pytest.mark.parametrize("form", list(FORMS))
def test_a_share_of_a_link_is_never_called_all_of_it(form):
    for setting, report in recorded_reports():
        sentence = diagnosed(setting, FORMS[form](report), capacity=True).sentence
        if setting.truth == "share":
            assert "the path is full" not in sentence, (setting.name, sentence)
        elif setting.truth == "full" and "bottleneck" in sentence:
            assert "others may share it" in sentence or "the path is full" in sentence, (setting.name, sentence)


def test_without_a_known_capacity_the_rate_is_this_flows_share():
    for setting, report in recorded_reports():
        diagnosis = diagnosed(setting, joined(report, 10))
        if diagnosis.verdict is Verdict.BOTTLENECK_QUEUE:
            assert "this flow's share, others may share it" in diagnosis.sentence, setting.name


@pytest.mark.parametrize("reverse", [False, True], ids=["sent", "received"])
def test_a_bidirectional_report_has_verdicts_both_ways(reverse):
    """The path was limited alike in both directions."""
    for setting, report in recorded_reports():
        if setting.bidir:
            diagnosis = diagnosed(structs.replace(setting, reverse=reverse), report)
            assert diagnosis.verdict in RIGHT[setting.truth], (setting.name, diagnosis.sentence)


def test_the_senders_half_of_a_bidirectional_report_is_enough():
    verdicts = Counter(
        diagnosed(setting, joined(report, 10)).verdict for setting, report in recorded_reports() if setting.bidir
    )

    assert verdicts[Verdict.UNDETERMINED] <= 2, verdicts


def test_a_report_of_the_receiver_alone_gives_a_sentence():
    """With `-R` and without the server's part there are rates only: the capacity shows whether the path was full."""
    full = [(setting, report) for setting, report in recorded_reports() if setting.truth == "full" and setting.reverse]
    assert full
    for setting, report in full:
        alone = joined(report, 10)

        assert diagnosed(setting, alone).verdict is Verdict.UNDETERMINED
        if setting.duration_s >= 10 and setting.queue_ms > 20:
            assert "the path is full" in diagnosed(setting, alone, capacity=True).sentence, setting.name


def unexplained(**fields):
    """23.4 Mbit/s without loss or a raised RTT, in a window that is nearly used up."""
    return recorded(steady(23.4e6, cwnd_bytes=1.2 * 23.4e6 * 40 / 8000), 10, **fields)


@pytest.mark.parametrize(
    "known",
    [
        {"capacity_bps": 25e6},
        {"promised_bps": 25e6},
        {"sender_host": HostState(speed_bps=25e6)},
        {"receiver_host": HostState(speed_bps=25e6)},
    ],
    ids=["measured", "promise", "sender's interface", "receiver's interface"],
)
def test_near_its_known_capacity_a_path_is_full(known):
    diagnosis = diagnose(unexplained(**known))

    assert diagnosis.verdict is Verdict.BOTTLENECK_QUEUE
    assert "the path is full, it carries 25 Mbit/s" in diagnosis.sentence
    assert "send buffer" not in diagnosis.sentence


@pytest.mark.parametrize("capacity_bps", [None, 10e6, 100e6])
def test_away_from_its_known_capacity_no_path_is_full(capacity_bps):
    """A rate above a capacity shows that it is another."""
    diagnosis = diagnose(unexplained(capacity_bps=capacity_bps))

    assert "the path is full" not in diagnosis.sentence


def test_a_measured_capacity_outweighs_a_promise():
    diagnosis = diagnose(unexplained(capacity_bps=90e6, promised_bps=25e6))

    assert "the path is full" not in diagnosis.sentence


@pytest.mark.parametrize(("variation_ms", "is_queue"), [(0.5, True), (3.0, False), (None, True)])
def test_an_rtt_that_varies_by_itself_shows_no_queue(variation_ms, is_queue):
    """The RTT is 46 ms in most intervals, of a minimum of 40 ms, and losses come at any window."""

    def moment(now_s):
        step = round(now_s * 10)
        window = (80e3, 60e3, 120e3, 45e3, 150e3)[step // 6 % 5]
        return Moment(window * 8 / 0.046, window, rtt_ms=40.0 if step == 0 else 46.0, retransmits=int(step % 6 == 5))

    made = recorded(moment, 10)
    samples = [dataclasses.replace(sample, rtt_variation_ms=variation_ms) for sample in made.samples]
    diagnosis = diagnose(dataclasses.replace(made, samples=tuple(samples)))

    assert (diagnosis.verdict is Verdict.BOTTLENECK_QUEUE) == is_queue, diagnosis.sentence


def test_silence_without_known_losses_is_no_pause_of_the_sender():
    """It may be a retransmission timeout."""
    made = recorded(lambda now_s: Moment(0.0 if round(now_s * 10) % 5 > 2 else 10e6, 1e5), 10)
    unknown = [dataclasses.replace(sample, retransmits=None) for sample in made.samples]

    assert diagnose(made).verdict is Verdict.APPLICATION_LIMITED
    assert diagnose(dataclasses.replace(made, samples=tuple(unknown))).verdict is Verdict.UNDETERMINED


def test_a_rise_of_the_rtt_at_losses_alone_is_no_queue():
    """About 100 of 500 Mbit/s: bursts raise the RTT by 15% before losses, which come at any window."""

    def moment(now_s):
        step = round(now_s * 10)
        window = (4e5, 3e5, 6e5, 2.5e5, 8e5)[step // 6 % 5]
        raised = step % 6 in (4, 5) and step > 5
        return Moment(window * 8 / 0.04, window, rtt_ms=46.0 if raised else 40.0, retransmits=int(step % 6 == 5))

    diagnosis = diagnose(recorded(moment, 10))

    assert diagnosis.verdict is Verdict.RANDOM_LOSS, diagnosis.sentence


def test_no_interface_says_what_a_path_carries():
    """It may be that of a virtual machine, 10 Gbit/s before any link."""
    setting, report = next(row for row in recorded_reports() if row[0].truth == "share")
    queued = recording(run_of(setting, report))

    sentence = diagnose(dataclasses.replace(queued, sender_host=HostState(speed_bps=10e9))).sentence
    measured = diagnose(dataclasses.replace(queued, capacity_bps=40e6)).sentence

    assert "others may share it" in sentence
    assert "Gbit/s" not in sentence
    assert "share of a path that carries 40 Mbit/s" in measured
