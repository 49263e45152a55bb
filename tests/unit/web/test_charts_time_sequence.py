"""The time-sequence plot of a capture with gaps draws no line through a gap."""

from monitor.analysis.packets import TimeSequence
from monitor.analysis.packets.time_sequence import AckPoint, SentRange
from monitor.web.charts.time_sequence import time_sequence_chart


def acks_of(*missing):
    points = tuple(AckPoint(at_s, ack, 5_000) for at_s, ack in ((0.1, 100), (0.2, 200), (0.9, 900), (1.0, 1000)))
    chart = time_sequence_chart(TimeSequence(1.0, (), (), (), points, (), (), missing))
    return [(row["t"], row["ack"], row["limit"]) for row in chart["datasets"]["acks"]]


def test_acks_break_where_missing_bytes_were_acknowledged():
    whole = [(0.1, 100, 5000), (0.2, 200, 5000), (0.9, 900, 5000), (1.0, 1000, 5000)]

    assert acks_of() == whole
    assert acks_of(SentRange(0.2, 0.8, 210, 880)) == [*whole[:2], (0.2, None, None), *whole[2:]]
    assert acks_of(SentRange(1.0, 1.1, 1000, 1200)) == whole
