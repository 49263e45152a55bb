"""Rows from results: each field of a result has a column, or is listed here with the reason."""

from datetime import UTC, datetime

import pytest

from monitor.archive.ingest.rows import row_of
from monitor.archive.kinds import RESULT_KINDS
from monitor.archive.models import Burst as BurstRow
from monitor.archive.models import CapacityResult, ThroughputTest
from probes.capacity.spec import CapacityRun, CapacityVerdict
from probes.contract import Outcome
from probes.disk_to_disk.spec import DiskToDiskRun
from probes.idle_restart.spec import IdleRestartRun
from probes.packets.spec import Burst
from probes.policer.spec import PolicerRun
from probes.request_response.spec import RequestResponseRun
from probes.site.wire import Delivered
from probes.transfers.spec import ThroughputRun, Transfer

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
OF_THE_PATH = {"target", "family"}
STORED_AS_MEASURED_AT = {"started_at"}
WITHOUT_COLUMN = {
    Burst: set(),
    # The slot has the direction, the path the addresses; inventory and capture have tables of their own.
    ThroughputRun: {"address", "reverse", "inventory", "capture"},
    CapacityRun: set(),
    DiskToDiskRun: {"address", "carried_bytes"},  # counted with the slot
    PolicerRun: {"address"},
    IdleRestartRun: {"address"},
    RequestResponseRun: set(),
}
TABLES = {
    Burst: BurstRow,
    ThroughputRun: ThroughputTest,
    **{result: kind.table for kind in RESULT_KINDS.values() for result in kind.kind.results},
}


@pytest.mark.parametrize("result", TABLES)
def test_each_field_of_a_result_has_a_column(result):
    columns = {column.name for column in TABLES[result]._meta.concrete_fields}

    assert set(result.__struct_fields__) - columns == OF_THE_PATH | STORED_AS_MEASURED_AT | WITHOUT_COLUMN[result]


def test_a_row_has_the_fields_of_the_result_and_of_its_delivery():
    run = CapacityRun(
        target="x",
        address="192.0.2.1",
        family=4,
        started_at=AT,
        outcome=Outcome.MEASURED,
        verdict=CapacityVerdict.LOSSY,
        sent=7,
    )

    row = row_of(CapacityResult, Delivered(sequence=1, path_id=2, test="t", result=run, during_test=True))

    assert (row.path_id, row.measured_at, row.test, row.during_test) == (2, AT, "t", True)
    assert (type(row.outcome), row.outcome, row.verdict, row.sent, row.address) == (
        str, "measured", "lossy", 7, "192.0.2.1"
    )  # fmt: skip


def test_columns_without_a_field_are_given():
    run = ThroughputRun(
        target="x",
        address=None,
        family=4,
        started_at=AT,
        outcome=Outcome.MEASURED,
        throughput_bps=8.0,
        transfer=Transfer(omitted_s=1.0),
    )

    row = row_of(ThroughputTest, Delivered(sequence=1, path_id=2, test="t", result=run, slot_id=9), average_bps=5.0)

    assert (row.slot_id, row.throughput_bps, row.average_bps, row.transfer) == (9, 8.0, 5.0, {"omitted_s": 1.0})
