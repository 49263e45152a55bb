"""Round trips as binary `real[]`, against psycopg's own dumper of arrays."""

from hypothesis import given
from hypothesis import strategies as st
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import Format

from monitor.archive.copying import REAL_ARRAY_OID, RoundTripsDumper


def by_psycopg(rtts_ms):
    transformer = Transformer()
    transformer.set_dumper_types([REAL_ARRAY_OID], Format.BINARY)
    return bytes(transformer.dump_sequence([list(rtts_ms)], [PyFormat.BINARY])[0])


@given(st.lists(st.one_of(st.none(), st.floats(0.0, 1e6)), max_size=20).map(tuple))
def test_round_trips_are_packed_as_psycopg_packs_arrays(rtts_ms):
    assert RoundTripsDumper(tuple).dump(rtts_ms) == by_psycopg(rtts_ms)
