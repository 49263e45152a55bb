"""Daily budgets: an exceeded budget is reported with its rule, and each day counts by itself. The oracle counts by
hand."""

from hypothesis import given
from hypothesis import strategies as st

from monitor.mesh.document.budgets import DAY_S, Budgets, Cost
from tests.facts import lacks

SLAC, CERN = ("host", "slac"), ("host", "cern")


def test_an_exhausted_day_leaves_the_next_day_untouched():
    budgets = Budgets({"host": {"max_minutes_per_day": 1}})
    budgets.spend([SLAC], 10, Cost(50))

    assert budgets.forbids([SLAC], DAY_S - 1, Cost(10)) is None
    reason = budgets.forbids([SLAC], DAY_S - 1, Cost(11))
    figures = " 11 s ", " 0.8 minutes ", " slac ", "1970-01-01", " 1 minutes allowed"
    assert lacks(reason, "budget.host.max_minutes_per_day:", *figures) == []
    assert budgets.forbids([SLAC], DAY_S, Cost(60)) is None
    assert budgets.forbids([CERN], 10, Cost(60)) is None


def test_a_budget_of_zero_permits_nothing_and_none_permits_all():
    assert Budgets({"path": {"max_bytes_per_day": 0}}).forbids([("path", "a → b")], 0, Cost(1)) is not None
    assert Budgets({}).forbids([SLAC], 0, Cost(1e9, 1e18)) is None


@given(
    st.lists(
        st.tuples(st.sampled_from([SLAC, CERN]), st.integers(0, 2 * DAY_S), st.integers(1, 40), st.integers(0, 9))
    ),
    st.integers(1, 3),
    st.integers(1, 30),
)
def test_permitted_tests_never_exceed_the_budget(tests, minutes, most_bytes):
    budgets = Budgets({"host": {"max_minutes_per_day": minutes, "max_bytes_per_day": most_bytes}})
    ran: dict[tuple[str, int], list[tuple[int, int]]] = {}
    for account, at_s, seconds, size in tests:
        of_day = ran.setdefault((account[1], at_s // DAY_S), [])
        fits = sum(seconds_used for seconds_used, _ in of_day) + seconds <= 60 * minutes
        used = sum(bytes_used for _, bytes_used in of_day)
        fits = fits and used < most_bytes and used + size <= most_bytes
        cost = Cost(seconds, size)

        assert (budgets.forbids([account], at_s, cost) is None) == fits
        if fits:
            budgets.spend([account], at_s, cost)
            of_day.append((seconds, size))
