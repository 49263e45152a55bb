"""TCP throughput from loss, window and capacity of a path. Pure functions on numbers.

`models` has the published formulas, `timing` durations and buffers, `estimates` the binding limit and advice,
`calibration` the loss that TCP sees. `forecasts` predicts the next test of a path from its earlier tests, `corrections`
their correction after a change of the path. The names for other packages are exported here.
"""

from monitor.analysis.tcp.calibration import LEAST_STRETCHES, Calibration, MeasuredDay, calibrate, stretches
from monitor.analysis.tcp.corrections import PathPings, TransferKind, corrected_bps
from monitor.analysis.tcp.estimates import estimate, needs
from monitor.analysis.tcp.figures import (
    FigureError,
    LimitEstimate,
    LimitName,
    Loss,
    Rtt,
    Sign,
    SpeedUp,
    StreamRequirements,
    ThroughputEstimate,
    TransferSettings,
)
from monitor.analysis.tcp.forecasts import Forecast, ForecastScore, PastTest, PathDifference, forecast, replayed
from monitor.analysis.tcp.models import (
    MSS_BYTES,
    CongestionControl,
    average_window,
    cubic_window,
    highspeed_window,
    loss_limit_bps,
    loss_ratio_for,
    mathis_bps,
    mathis_estimate,
    reno_window,
    scalable_window,
    window_limit_bps,
)
from monitor.analysis.tcp.timing import (
    buffer_bytes,
    buffer_delay_ratio,
    efficiency_ratio,
    highspeed_increase_and_decrease,
    recovery_s,
    slow_start_s,
    streams_needed,
    transfer_time_ratio,
    window_segments,
)
from monitor.analysis.tcp.typed import LOSS_SOURCES, NAME_OF_FIGURE, from_typed

__all__ = [
    "LEAST_STRETCHES",
    "LOSS_SOURCES",
    "MSS_BYTES",
    "NAME_OF_FIGURE",
    "Calibration",
    "CongestionControl",
    "FigureError",
    "Forecast",
    "ForecastScore",
    "LimitEstimate",
    "LimitName",
    "Loss",
    "MeasuredDay",
    "PastTest",
    "PathDifference",
    "PathPings",
    "Rtt",
    "Sign",
    "SpeedUp",
    "StreamRequirements",
    "ThroughputEstimate",
    "TransferKind",
    "TransferSettings",
    "average_window",
    "buffer_bytes",
    "buffer_delay_ratio",
    "calibrate",
    "corrected_bps",
    "cubic_window",
    "efficiency_ratio",
    "estimate",
    "forecast",
    "from_typed",
    "highspeed_increase_and_decrease",
    "highspeed_window",
    "loss_limit_bps",
    "loss_ratio_for",
    "mathis_bps",
    "mathis_estimate",
    "needs",
    "recovery_s",
    "reno_window",
    "replayed",
    "scalable_window",
    "slow_start_s",
    "streams_needed",
    "stretches",
    "transfer_time_ratio",
    "window_limit_bps",
    "window_segments",
]
