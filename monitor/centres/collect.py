"""Request and store all other centres' summaries in parallel."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from django.utils import timezone

from monitor.api.centre.summary import CentreOut
from monitor.centres.client import NoAnswer, request_summary
from monitor.centres.configured import OtherCentre
from monitor.centres.models import CentreAnswer

MOST_AT_ONCE = 8


def collect(centres: Sequence[OtherCentre]) -> list[CentreAnswer]:
    """Request and store summaries; delete summaries of unconfigured centres."""
    CentreAnswer.objects.exclude(name__in=[centre.name for centre in centres]).delete()
    if not centres:
        return []
    with ThreadPoolExecutor(MOST_AT_ONCE, "centre") as pool:
        answers = list(pool.map(_request, centres))
    for centre, (asked_at, answer) in zip(centres, answers, strict=True):
        fields = {"url": centre.url, "asked_at": asked_at, "problem": ""}
        if isinstance(answer, CentreOut):
            fields |= {"answered_at": asked_at, "summary": answer.model_dump(mode="json")}
        else:
            fields |= {"problem": str(answer)}
        CentreAnswer.objects.update_or_create(name=centre.name, defaults=fields)
    return list(CentreAnswer.objects.order_by("name"))


def _request(centre: OtherCentre) -> tuple[object, CentreOut | NoAnswer]:
    asked_at = timezone.now()
    try:
        return asked_at, request_summary(centre)
    except NoAnswer as error:
        return asked_at, error
