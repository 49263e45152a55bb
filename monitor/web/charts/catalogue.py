"""Charts without rows, to compile their layouts in advance."""

from __future__ import annotations

from datetime import UTC, datetime

from monitor.archive.queries.paths import Series
from monitor.web.charts import time_sequence, transfer
from monitor.web.charts.marks import Spec, TimeAxis
from monitor.web.charts.series import loss_chart, rtt_chart, throughput_chart
from monitor.web.charts.smoke import smoke_chart


def empty_charts() -> list[Spec]:
    window = TimeAxis(datetime.fromtimestamp(0, tz=UTC), datetime.fromtimestamp(3600, tz=UTC))
    series = Series(path_id=0, packet_bytes=0, step_s=60, points=())
    return [
        smoke_chart(series, (), window),
        throughput_chart(series, (), window),
        *transfer.empty_charts(),
        time_sequence.empty_chart(),
        rtt_chart(series, window),
        loss_chart(series, window),
    ]
