"""Diagnosis of a throughput test: its limit, its phases, and the cost of each loss (docs/method/diagnosis.md). Pure;
names for other packages are exported here."""

from monitor.analysis.transfer.diagnosis import Diagnosis, diagnose
from monitor.analysis.transfer.disks import DiskFinding, DiskLimit, DiskToDisk, network_or_disk
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
from monitor.analysis.transfer.signs import Signs
from monitor.analysis.transfer.token_bucket import TokenBucket

__all__ = [
    "CoreUse",
    "Diagnosis",
    "DiskFinding",
    "DiskLimit",
    "DiskToDisk",
    "EvidenceFigure",
    "HostState",
    "Pause",
    "ReceiverInterval",
    "Recording",
    "RecordingError",
    "Recovery",
    "Rfc6349",
    "SenderInterval",
    "Signs",
    "Spread",
    "TcpInfo",
    "TokenBucket",
    "TrainsResult",
    "Verdict",
    "bit_metres_per_s",
    "diagnose",
    "network_or_disk",
    "size_text",
    "spread",
]
