"""Diagnosis of a throughput test: its limit, its phases, and the cost of each loss (docs/method/diagnosis.md). Pure;
names for other packages are exported here."""

from monitor.analysis.transfer.diagnosis import Diagnosis, diagnose
from monitor.analysis.transfer.disks import DiskLimit, DiskToDisk, network_or_disk
from monitor.analysis.transfer.events import Pause, Recovery
from monitor.analysis.transfer.finding import EvidenceFigure, Verdict, size_text
from monitor.analysis.transfer.period import Spread, bit_metres_per_s, spread
from monitor.analysis.transfer.record import (
    CoreUse,
    HostState,
    ReceiverInterval,
    Recording,
    RecordingError,
    SenderInterval,
    TcpInfo,
    TrainsResult,
)
from monitor.analysis.transfer.rfc6349 import Rfc6349
