"""TCP throughput from loss, window and capacity of a path. Pure; the names for other packages are exported here."""

from monitor.analysis.tcp.calibration import LEAST_STRETCHES, Calibration, MeasuredDay, calibrate, stretches
from monitor.analysis.tcp.corrections import PathPings, TransferKind, corrected_bps
from monitor.analysis.tcp.estimates import estimate, needs
from monitor.analysis.tcp.figures import (
    FigureError,
    LimitName,
    Loss,
    Rtt,
    Sign,
    SpeedUp,
    ThroughputEstimate,
    TransferSettings,
)
from monitor.analysis.tcp.forecasts import Forecast, PastTest, PathDifference, forecast, replayed
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
