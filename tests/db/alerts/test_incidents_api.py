"""The users' API of incidents, silences, maintenance and audit records: lists, actions, repeated and late requests,
permissions."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest

from monitor.accounts.models import issue_user_token
from monitor.alerts.incidents import lifecycle
from monitor.alerts.models import AuditRecord, Incident, QuietPeriod
from tests.db.alert_rows import at_once
from tests.db.incident_rows import HOUR, MINUTE, NOW, lossy, person, watched
from tests.facts import lacks

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
LOCAL = {"host": "localhost"}


@pytest.fixture
def paths():
    return watched()


@pytest.fixture
def call(client):
    """A request to the API as JSON; the status and the body of the answer."""

    def ask(method, address, body=None, **headers):
        answer = client.generic(
            method,
            f"/api/v1/{address}",
            "" if body is None else json.dumps(body),
            content_type="application/json",
            headers={**LOCAL, **headers},
        )
        return answer.status_code, answer.json()

    return ask


@pytest.fixture
def operator(client):
    client.force_login(person("les", "operator"))


def ended(path, at):
    """A closed incident on a path, as left by the rules."""
    incident = lossy(path, at)
    keys = [(path.pk, "loss")]
    assert lifecycle.close(incident.pk, keys, "loss is over", at + HOUR)
    return incident


class TestListing:
    def test_an_incident_has_its_fields_and_paths(self, call, paths):
        incident = lossy(paths["slac → cern"])

        [row] = call("GET", "incidents")[1]

        assert (row["id"], row["state"], row["rule"]) == (incident.pk, "open", "loss")
        assert (row["severity"], row["acknowledged_by"], row["closed_at"]) == (incident.severity, "", None)
        assert row["path_ids"] == [paths["slac → cern"].pk]
        assert lacks(row["summary"], "slac → cern: loss 20%", "(20 of 100 packets") == []

    def test_detection_and_opening_are_those_of_the_ticket(self, call, paths):
        """An incident opens once it is confirmed: later than it was detected."""
        incident = lossy(paths["slac → cern"])
        Incident.objects.update(opened_at=NOW - MINUTE, began_at=NOW - 2 * MINUTE)
        times = {"detected_at": NOW - MINUTE, "opened_at": NOW}

        [row] = call("GET", "incidents")[1]
        in_full = call("GET", f"incidents/{incident.pk}")[1]

        for answer in (row, in_full):
            assert {name: datetime.fromisoformat(answer[name]) for name in times} == times
        lines = dict(line.split(":", 1) for line in in_full["ticket"].splitlines() if line.startswith(("Det", "Open")))
        stated = {name: datetime.fromisoformat(text.replace("UTC", "+00:00").strip()) for name, text in lines.items()}
        assert stated == {"Detected": times["detected_at"], "Opened": times["opened_at"]}
        for since, until, matching in ((row["detected_at"], row["opened_at"], 1), (None, row["detected_at"], 0)):
            query = f"until={until.replace('+00:00', 'Z')}" + (
                f"&since={since.replace('+00:00', 'Z')}" if since else ""
            )
            assert len(call("GET", f"incidents?state=all&{query}")[1]) == matching

    def test_a_pending_incident_is_not_opened_yet(self, call, paths):
        incident = lossy(paths["slac → cern"])
        incident.turns.filter(turn="opened").delete()
        Incident.objects.update(is_pending=True)

        [row] = call("GET", "incidents?state=pending")[1]

        assert (row["detected_at"], row["opened_at"]) == (f"{NOW:%Y-%m-%dT%H:%M:%SZ}", None)

    @pytest.mark.parametrize(
        ("query", "matching"),
        [
            ("", {"now"}),
            ("?state=all", {"now", "past"}),
            ("?state=resolved", {"past"}),
            ("?state=acknowledged", set()),
            ("?state=unacknowledged", {"now"}),
            ("?state=pending", set()),
            ("?state=all&site=slac", {"now"}),
            ("?state=all&site=cern", {"now", "past"}),
            ("?state=all&group=coast", {"now"}),
            ("?state=all&since=2026-11-21T00:00:00Z", {"now"}),
            ("?state=all&until=2026-11-21T00:00:00Z", {"past"}),
            # It ended at 2026-11-20 12:30, which is no longer part of it.
            ("?state=all&since=2026-11-20T12:30:00Z", {"now"}),
            ("?state=all&since=2026-11-20T12:29:59Z", {"now", "past"}),
            ("?state=all&severity=notice", set()),
        ],
    )
    def test_filters_choose_by_state_place_and_time(self, call, client, paths, query, matching):
        past = ended(paths["fnal → cern"], NOW - 25 * HOUR)
        now = lossy(paths["slac → cern"])
        names = {past.pk: "past", now.pk: "now"}

        status, listed = call("GET", f"incidents{query}")

        assert (status, {names[row["id"]] for row in listed}) == (200, matching)

    def test_a_path_lists_its_own_incidents(self, call, paths):
        lossy(paths["slac → cern"])

        assert len(call("GET", f"incidents?path_id={paths['slac → cern'].pk}")[1]) == 1
        assert call("GET", f"incidents?path_id={paths['cern → fnal'].pk}")[1] == []

    def test_pages_are_consecutive_and_have_the_total(self, client, paths):
        days = [ended(paths["fnal → cern"], NOW - timedelta(days=day)).pk for day in (4, 3, 2)][::-1]

        pages = [
            client.get(f"/api/v1/incidents?state=all&limit=2&offset={offset}", headers=LOCAL) for offset in (0, 2, 4)
        ]

        assert [[row["id"] for row in page.json()] for page in pages] == [days[:2], days[2:], []]
        assert {page["X-Total-Count"] for page in pages} == {"3"}

    @pytest.mark.parametrize(
        ("query", "facts"),
        [
            ("site=nowhere", ["site=nowhere", "no such site", "cern, fnal, slac"]),
            ("group=nobody", ["group=nobody", "no such group", "coast"]),
            ("since=2026-11-21T00:00:00", ["timezone"]),
            ("since=9999-12-31T23:59:59-12:00", ["within", " 1970 to 2199"]),
            ("severity=bad", ["'notice', 'warning' or 'critical'"]),
            ("limit=1000", ["less than or equal", " 200"]),
        ],
    )
    def test_an_invalid_filter_is_named(self, call, paths, query, facts):
        status, answer = call("GET", f"incidents?{query}")

        assert status == 422
        assert lacks(json.dumps(answer), *facts) == []

    def test_the_list_has_a_fixed_number_of_queries(self, call, paths, django_assert_num_queries):
        lossy(paths["slac → cern"])
        with django_assert_num_queries(4):  # count, last change, incidents, their paths
            call("GET", "incidents")
        lossy(paths["fnal → cern"])
        with django_assert_num_queries(4):
            call("GET", "incidents")


class TestDetail:
    def test_it_has_evidence_history_and_the_ticket(self, call, paths):
        incident = lossy(paths["slac → cern"])

        status, detail = call("GET", f"incidents/{incident.pk}")

        assert status == 200
        [path] = detail["evidence"]["paths"]
        before, after, back = path["there"]["before"], path["there"]["after"], path["back"]["after"]
        assert (before["lost"], after["lost"], back["lost"]) == (0, 20, 0)
        assert after["sent"] == 100
        assert [event["turn"] for event in detail["history"]] == ["found", "opened"]
        assert detail["findings"][0]["sentence"].startswith("loss 20%")
        assert detail["findings"][0]["direction"] is None
        assert "192.0.2.1" in detail["ticket"]
        assert detail["notifications"][0]["change"] == "opened"

    def test_a_finding_of_a_direction_names_it(self, call, paths):
        incident = lossy(paths["slac → cern"])
        row = incident.paths.get()
        row.figures["direction"] = "reverse"
        row.save()

        assert call("GET", f"incidents/{incident.pk}")[1]["findings"][0]["direction"] == "reverse"

    def test_notes_about_late_results_stay_in_the_history(self, call, paths):
        incident = lossy(paths["slac → cern"])
        for words in ("first", "second"):
            lifecycle.correct(incident.pk, words, NOW)

        answer = call("GET", f"incidents/{incident.pk}")[1]

        assert answer["correction"] == "second"
        assert [event["note"] for event in answer["history"] if event["turn"] == "corrected"] == ["first", "second"]

    def test_an_unknown_incident_is_404(self, call, paths):
        status, answer = call("GET", "incidents/77")

        assert (status, answer.keys()) == (404, {"detail"})
        assert lacks(answer["detail"], "no incident 77;", "/api/v1/incidents") == []

    def test_it_has_a_fixed_number_of_queries(self, call, paths, django_assert_num_queries):
        incident = lossy(paths["slac → cern"])

        with django_assert_num_queries(
            7
        ):  # incident, paths, turns, notifications, audit records, evidence, the last hour
            call("GET", f"incidents/{incident.pk}")


@pytest.mark.usefixtures("operator")
class TestAcknowledging:
    def test_acknowledging_twice_is_recorded_once(self, call, paths):
        incident = lossy(paths["slac → cern"])
        address = f"incidents/{incident.pk}/acknowledgement"

        answers = [call("PUT", address) for _ in range(2)]

        assert [(status, body["state"], body["acknowledged_by"]) for status, body in answers] == [
            (200, "acknowledged", "les")
        ] * 2
        assert [audit_record.what for audit_record in AuditRecord.objects.all()] == [
            f"acknowledged incident {incident.pk}"
        ]

    def test_a_second_person_gets_a_conflict_naming_the_first(self, call, client, paths):
        incident = lossy(paths["slac → cern"])
        call("PUT", f"incidents/{incident.pk}/acknowledgement")
        client.force_login(person("warren", "operator"))

        status, answer = call("PUT", f"incidents/{incident.pk}/acknowledgement")

        assert status == 409
        assert lacks(answer["detail"], "les acknowledged", f"incident {incident.pk} ", " 12:30 UTC") == []

    def test_an_acknowledgement_can_be_removed_and_repeated(self, call, paths):
        incident = lossy(paths["slac → cern"])
        address = f"incidents/{incident.pk}/acknowledgement"

        states = [call(method, address)[1]["state"] for method in ("PUT", "DELETE", "DELETE", "PUT")]

        assert states == ["acknowledged", "open", "open", "acknowledged"]
        turns = [event["turn"] for event in call("GET", f"incidents/{incident.pk}")[1]["history"]]
        assert turns == ["found", "opened", "acknowledged", "unacknowledged", "acknowledged"]

    def test_a_closed_incident_cannot_be_acknowledged(self, call, paths):
        incident = ended(paths["slac → cern"], NOW - 2 * HOUR)

        for method in ("PUT", "DELETE"):
            status, answer = call(method, f"incidents/{incident.pk}/acknowledgement")
            assert status == 409
            assert lacks(answer["detail"], f"incident {incident.pk} ", "closed", "2026-11-21 11:30 UTC") == []

    def test_acknowledging_an_unknown_incident_is_404(self, call, paths):
        assert call("PUT", "incidents/77/acknowledgement") == (404, {"detail": "there is no incident 77"})


@pytest.mark.usefixtures("operator")
class TestComments:
    def test_a_comment_repeated_with_its_key_is_stored_once(self, call, paths):
        incident = lossy(paths["slac → cern"])
        body, key = {"text": "  the provider <b>knows</b>  "}, {"Idempotency-Key": "c1"}

        answers = [call("POST", f"incidents/{incident.pk}/comments", body, **key) for _ in range(2)]

        assert [status for status, _ in answers] == [200, 200]
        assert answers[0] == answers[1]
        assert [audit_record.comment for audit_record in AuditRecord.objects.all()] == ["the provider <b>knows</b>"]

    def test_a_key_of_another_request_is_a_conflict(self, call, paths):
        incident = lossy(paths["slac → cern"])
        address, key = f"incidents/{incident.pk}/comments", {"Idempotency-Key": "c1"}
        call("POST", address, {"text": "one"}, **key)

        status, answer = call("POST", address, {"text": "two"}, **key)

        assert status == 409
        before = ("les", "commented", f"incident {incident.pk}")
        assert lacks(answer["detail"], "key c1 ", "used before", *before) == []

    @pytest.mark.parametrize("text", ["", "   ", "a\x00b", "x" * 4001])
    def test_an_invalid_comment_is_refused(self, call, paths, text):
        incident = lossy(paths["slac → cern"])

        assert call("POST", f"incidents/{incident.pk}/comments", {"text": text})[0] == 422
        assert not AuditRecord.objects.exists()


@pytest.mark.usefixtures("operator")
class TestSilences:
    def test_a_silence_is_created_listed_and_ended_once(self, call, paths):
        until = (NOW + HOUR).isoformat().replace("+00:00", "Z")

        status, created = call("POST", "silences", {"site": "cern", "until": until, "reason": "fibre cut"})

        assert (status, created["site"], created["standing"], created["ends_at"]) == (200, "cern", "in force", until)
        assert [row["id"] for row in call("GET", "silences")[1]] == [created["id"]]
        for _ in range(2):
            assert call("DELETE", f"silences/{created['id']}")[1]["standing"] == "ended"
        assert call("GET", "silences")[1] == []
        assert [row["id"] for row in call("GET", "silences?past=true")[1]] == [created["id"]]
        begun, over = [audit_record.what for audit_record in AuditRecord.objects.order_by("pk")]
        period = ("for cern from 2026-11-21 12:30", "to 2026-11-21 13:30 UTC")
        assert lacks(begun, f"made silence {created['id']} ", *period) == []
        assert over == f"ended silence {created['id']}"

    def test_a_silence_repeated_with_its_key_is_created_once(self, call, paths):
        body = {"group": "coast", "until": (NOW + HOUR).isoformat()}

        answers = [call("POST", "silences", body, **{"Idempotency-Key": "s1"}) for _ in range(3)]

        assert len({body["id"] for _, body in answers}) == 1
        assert QuietPeriod.objects.count() == AuditRecord.objects.count() == 1

    @pytest.mark.parametrize(
        ("body", "facts"),
        [
            ({"site": "nowhere"}, ["site nowhere: not in use"]),
            ({"path_id": 9999}, ["path 9999: not in use"]),
            ({"site": "cern", "group": "coast"}, ["not several"]),
            ({"until": "2026-11-21T12:30:00Z"}, ["ends", "2026-11-21 12:30 UTC", "before it starts", "in the past"]),
            ({"until": "tomorrow"}, ["until"]),
            ({"until": "2150-12-31T23:59:59Z"}, ["ends in 2150", "more than 10 years"]),
            ({"until": "2027-12-31T23:59:59Z"}, ["longer than 366 days"]),
            ({"sight": "cern"}, ["sight: unknown field"]),
            ({"reason": "a\x00b"}, ["reason: must be printable and on one line", "U+0000"]),
        ],
    )
    def test_an_invalid_silence_is_refused_with_the_field(self, call, paths, body, facts):
        status, answer = call("POST", "silences", {"until": (NOW + HOUR).isoformat(), **body})

        assert status == 422
        assert lacks(json.dumps(answer), *facts) == []
        assert not QuietPeriod.objects.exists()


@pytest.mark.usefixtures("operator")
class TestMaintenance:
    WEEKLY = {
        "group": "coast",
        "starts_at": "2026-11-23T02:00:00Z",
        "ends_at": "2026-11-23T04:00:00Z",
        "every_s": 604800,
        "reason": "updates",
    }

    def test_a_recurring_maintenance_has_its_next_start(self, call, paths, monkeypatch):
        created = call("POST", "maintenance", self.WEEKLY)[1]

        next_starts = []
        for now in (NOW, NOW + timedelta(days=1, hours=14), NOW + timedelta(days=3)):
            monkeypatch.setattr("django.utils.timezone.now", lambda now=now: now)
            answer = call("GET", f"maintenance/{created['id']}")[1]
            next_starts.append((answer["standing"], answer["next_starts_at"]))

        assert next_starts == [
            ("to come", "2026-11-23T02:00:00Z"),
            ("in force", "2026-11-23T02:00:00Z"),
            ("to come", "2026-11-30T02:00:00Z"),
        ]

    def test_a_change_of_an_outdated_revision_is_a_conflict(self, call, paths):
        created = call("POST", "maintenance", self.WEEKLY)[1]
        later = {**self.WEEKLY, "ends_at": "2026-11-23T05:00:00Z", "revision": created["revision"]}

        first = call("PUT", f"maintenance/{created['id']}", later)
        again = call("PUT", f"maintenance/{created['id']}", later)
        other = call("PUT", f"maintenance/{created['id']}", {**later, "reason": "others"})

        assert (first[0], first[1]["revision"], first[1]["ends_at"]) == (200, 1, "2026-11-23T05:00:00Z")
        assert again == first, "a repeated change has no effect"
        assert other[0] == 409
        assert lacks(other[1]["detail"], f"maintenance {created['id']} ", "changed or ended", "since you read it") == []
        assert QuietPeriod.objects.get().reason == "updates"
        action = [audit_record.what for audit_record in AuditRecord.objects.order_by("pk")][1]
        period = ("for group coast from 2026-11-23 02:00", "to 2026-11-23 05:00 UTC", "every 7 days")
        assert lacks(action, f"changed maintenance {created['id']},", *period) == []

    def test_an_ended_maintenance_is_not_changed(self, call, paths):
        created = call("POST", "maintenance", self.WEEKLY)[1]
        call("DELETE", f"maintenance/{created['id']}")

        assert call("PUT", f"maintenance/{created['id']}", {**self.WEEKLY, "revision": 0})[0] == 409

    @pytest.mark.parametrize(
        ("wrong", "facts"),
        [
            ({"ends_at": "2026-11-23T02:00:00Z"}, ["before it starts"]),
            ({"every_s": 3600}, ["longer than", "repeat interval", " 60 min"]),
            ({"until": "2026-11-20T00:00:00Z"}, ["stops repeating", "2026-11-20 00:00 UTC", "before it starts"]),
            ({"every_s": None, "until": "2027-01-01T00:00:00Z"}, ["it does not repeat"]),
            ({"every_s": 10**12}, ["less than or equal"]),
            (
                {"starts_at": "1990-01-01T00:00:00Z", "ends_at": "2150-12-31T23:59:59Z", "every_s": None},
                ["starts in 1990,"],
            ),
            ({"ends_at": "2027-12-01T00:00:00Z", "every_s": None}, ["longer than 366 days"]),
            ({"until": "2150-12-31T23:59:59Z"}, ["stops repeating in 2150", "more than 10 years"]),
        ],
    )
    def test_an_invalid_maintenance_is_refused_with_the_field(self, call, paths, wrong, facts):
        status, answer = call("POST", "maintenance", {**self.WEEKLY, **wrong})

        assert status == 422
        assert lacks(json.dumps(answer), *facts) == []
        assert not QuietPeriod.objects.exists()

    def test_a_silence_is_not_a_maintenance(self, call, paths):
        silence = call("POST", "silences", {"until": (NOW + HOUR).isoformat()})[1]

        for method, body in (("GET", None), ("DELETE", None), ("PUT", {**self.WEEKLY, "revision": 0})):
            assert call(method, f"maintenance/{silence['id']}", body)[0] == 404
        assert call("GET", "silences")[1][0]["standing"] == "in force"


@pytest.mark.django_db(transaction=True)
def test_of_concurrent_acknowledgements_only_the_first_counts(paths):
    from monitor.alerts.incidents import actions

    incident = lossy(paths["slac → cern"])

    def attempt(number):
        try:
            actions.acknowledge(incident.pk, f"operator {number}", NOW)
        except actions.ObjectChanged:
            return False
        return True

    silence_ids = at_once(4, lambda _: actions.silence(actions.QuietScope(), NOW + HOUR, "", "les", NOW, key="same").pk)

    assert sorted(at_once(4, attempt)) == [False, False, False, True]
    assert len(set(silence_ids)) == QuietPeriod.objects.count() == 1
    assert AuditRecord.objects.count() == 2


WRITES = [
    ("PUT", "incidents/{incident}/acknowledgement", None),
    ("DELETE", "incidents/{incident}/acknowledgement", None),
    ("POST", "incidents/{incident}/comments", {"text": "hello"}),
    ("POST", "silences", {"until": (NOW + HOUR).isoformat()}),
    ("POST", "maintenance", {"starts_at": NOW.isoformat(), "ends_at": (NOW + HOUR).isoformat()}),
    ("DELETE", "silences/{silence}", None),
]
READS = ["incidents", "incidents/{incident}", "silences", "maintenance"]


@pytest.fixture
def existing_ids(paths):
    silence = QuietPeriod.objects.create(
        kind="silence", starts_at=NOW - MINUTE, ends_at=NOW + HOUR, made_by="ann", made_at=NOW
    )
    return {"incident": lossy(paths["slac → cern"]).pk, "silence": silence.pk}


@pytest.mark.parametrize(
    ("role", "reads", "writes", "trail"),
    [(None, 200, 401, 403), ("viewer", 200, 403, 403), ("operator", 200, 200, 200)],
)
def test_each_role_has_its_permissions_in_the_api(call, client, existing_ids, role, reads, writes, trail):
    """Anonymous here is a user of the machine itself, who may read."""
    if role is not None:
        client.force_login(person("somebody", role))

    assert {call("GET", address.format(**existing_ids))[0] for address in READS} == {reads}
    assert {call(method, address.format(**existing_ids), body)[0] for method, address, body in WRITES} == {writes}
    assert call("GET", "deeds")[0] == trail
    assert bool(AuditRecord.objects.exists()) is (writes == 200)


@pytest.mark.parametrize(("may_operate", "status"), [(False, 403), (True, 200)])
def test_a_token_writes_only_if_it_was_created_for_that(call, existing_ids, may_operate, status):
    token = issue_user_token(person("robot", "operator").pk, "tickets", NOW, may_operate=may_operate)
    bearer = {"Authorization": f"Bearer {token}"}

    answers = {call(method, address.format(**existing_ids), body, **bearer)[0] for method, address, body in WRITES}

    assert answers == {status}
    assert {audit_record.who for audit_record in AuditRecord.objects.all()} == ({"robot"} if may_operate else set())


def test_a_token_that_may_operate_ends_with_the_role(call, existing_ids):
    user = person("robot", "operator")
    token = issue_user_token(user.pk, "tickets", NOW, may_operate=True)
    user.groups.clear()

    assert (
        call("PUT", f"incidents/{existing_ids['incident']}/acknowledgement", Authorization=f"Bearer {token}")[0] == 403
    )
    assert Incident.objects.get().acknowledged_at is None


def test_a_session_without_the_csrf_token_changes_nothing(client, call, existing_ids):
    client.handler.enforce_csrf_checks = True
    client.force_login(person("les", "operator"))

    assert call("PUT", f"incidents/{existing_ids['incident']}/acknowledgement")[0] == 403


def test_the_audit_trail_lists_newest_first_and_by_person(call, client, existing_ids):
    for name in ("les", "warren"):
        client.force_login(person(name, "operator"))
        call("POST", f"incidents/{existing_ids['incident']}/comments", {"text": f"from {name}"})

    trail = call("GET", "deeds")[1]
    of_les = call("GET", f"deeds?who=les&incident_id={existing_ids['incident']}")[1]

    assert [(record["who"], record["comment"]) for record in trail] == [("warren", "from warren"), ("les", "from les")]
    assert [record["who"] for record in of_les] == ["les"]
    assert call("GET", "deeds?limit=1&offset=1")[1] == [trail[1]]
