"""The unsubscribe page of a mail's link: GET confirms, since programs follow links, POST ends the subscription.

Mail clients POST by themselves (RFC 8058), hence no CSRF token: the token in the address is the secret.
"""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods

from monitor.reports import subscribers
from monitor.reports.models import Subscriber


@csrf_exempt
@login_not_required
@require_http_methods(["GET", "HEAD", "POST"])
def unsubscribe(request: HttpRequest, token: str) -> HttpResponse:
    """Confirm (GET), or end the subscription (POST); idempotent."""
    subscriber = Subscriber.objects.filter(token=token).first()
    if subscriber is None:
        raise Http404("This link belongs to no subscription; ask whoever runs this centre.")
    if request.method == "POST":
        subscribers.unsubscribe_by_token(token, timezone.now())
        subscriber.refresh_from_db()
    return render(request, "reports/unsubscribe.html", {"subscriber": subscriber})
