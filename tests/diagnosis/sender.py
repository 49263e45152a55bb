"""`python -m tests.diagnosis.sender SPEC SERVER_PID [OPTION…]`: a test by the probe, with options for iperf3 that no
plan has, and the time that the server at the other end waited for a processor, which the sender cannot see."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import msgspec

from probes.contract import Deadline
from probes.transfers.iperf3.authentication import Credentials
from probes.transfers.iperf3.sampling import ToolSampler
from probes.transfers.iperf3.transfer import client_arguments, run_client
from probes.transfers.spec import ThroughputSpec

if __name__ == "__main__":
    spec = msgspec.json.decode(sys.argv[1], type=ThroughputSpec)
    command = [*client_arguments(spec, spec.address), *sys.argv[3:]]
    with ToolSampler(int(sys.argv[2]), None) as receiver:
        run = run_client(command, spec, spec.address, datetime.now(UTC), Deadline(60), Credentials())
    used = msgspec.structs.replace(run.transfer.receiver_cpu, wanted_ratio=receiver.wanted_ratio())  # type: ignore
    transfer = msgspec.structs.replace(run.transfer, receiver_cpu=used)  # type: ignore[type-var]
    sys.stdout.buffer.write(msgspec.json.encode(msgspec.structs.replace(run, transfer=transfer)))
