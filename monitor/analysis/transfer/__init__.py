"""What a throughput test says about the transfer: what limited it, how its time was spent, what
each loss cost.

`record` is what goes in, `diagnosis` what comes out; `start`, `events`, `token_bucket` and `signs` find what `verdicts`
rests on; `period` and `rfc6349` are the figures of reports, `disks` says of a file's way whether network or disk held
it back. Pure functions on numbers; what other rooms use is named
here. How it works and what it cannot tell is in docs/diagnosis.md.
"""

from monitor.analysis.transfer.diagnosis import Diagnosis, diagnose
from monitor.analysis.transfer.disks import DiskFinding, DiskToDisk, Limit, network_or_disk
from monitor.analysis.transfer.events import Pause, Recovery
from monitor.analysis.transfer.period import Spread, bit_metres_per_s, spread
from monitor.analysis.transfer.record import Arrival, KernelCounts, Recording, RecordingError, Sample
from monitor.analysis.transfer.rfc6349 import Rfc6349
from monitor.analysis.transfer.signs import Signs
from monitor.analysis.transfer.token_bucket import TokenBucket
from monitor.analysis.transfer.verdicts import Figure, Verdict

__all__ = [
    "Arrival",
    "Diagnosis",
    "DiskFinding",
    "DiskToDisk",
    "Figure",
    "KernelCounts",
    "Limit",
    "Pause",
    "Recording",
    "RecordingError",
    "Recovery",
    "Rfc6349",
    "Sample",
    "Signs",
    "Spread",
    "TokenBucket",
    "Verdict",
    "bit_metres_per_s",
    "diagnose",
    "network_or_disk",
    "spread",
]
