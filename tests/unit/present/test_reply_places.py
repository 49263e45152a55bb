"""Which packets of a burst were answered first and last, where some were sent during own tests and have no place."""

import numpy as np
import pytest

from monitor.analysis.segments.chain_sums import sums_in_order
from monitor.archive.queries.present.lost_order import LostOrder

PACKETS = 10


def order_of(answered, loaded):
    """A burst by whether each packet was answered and sent during own tests, which begin or end within it."""
    own = answered[~loaded]
    places = np.flatnonzero(own)
    one = {
        "path_id": 1.0, "packet_bytes": 100.0, "at_s": 0.0, "sent": float(len(own)), "received": float(own.sum()),
        "result": 0.0, "loaded_sent": float(loaded.sum()), "loaded_received": float(answered[loaded].sum()),
        "first_reply": float(places[0]) if len(places) else np.nan,
        "last_reply": float(places[-1]) if len(places) else np.nan,
    }  # fmt: skip
    return LostOrder(
        **{name: np.array([value]) for name, value in one.items()}, sums=sums_in_order(~own)[:, np.newaxis]
    )


@pytest.mark.parametrize("edge", range(1, PACKETS))
@pytest.mark.parametrize("is_back", [False, True])
@pytest.mark.parametrize(("begin", "end"), [(0, 4), (0, 7), (3, 10), (6, 10), (2, 5), (0, 0)])
def test_replies_up_to_a_packet_or_from_one_on_have_their_places(edge, is_back, begin, end):
    number = np.arange(PACKETS)
    answered = number >= edge if is_back else number < edge
    loaded = (number >= begin) & (number < end)

    first, last, lost_before = order_of(answered, loaded).places(np.array([is_back]))[:, 0]

    if answered[loaded].any() or answered[~loaded].any():
        assert (first, last) == (number[answered][0], number[answered][-1])
    if answered[~loaded].any():
        assert lost_before == (~answered[~loaded]).argmin()
    elif is_back and answered[loaded].any():
        assert lost_before == (~loaded).sum()


def test_losses_apart_have_the_numbers_of_their_own():
    answered = np.array([True, False, True, True, False, True, True, True, False, False])
    first, last, _ = order_of(answered, np.arange(PACKETS) >= 8).places(np.array([False]))[:, 0]

    assert (first, last) == (0.0, 7.0)
