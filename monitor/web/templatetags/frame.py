from __future__ import annotations

from urllib.parse import urlencode

from django import template
from django.http import HttpRequest
from django.template import Context
from django.urls import reverse

from monitor.accounts.access import may_operate
from monitor.accounts.shared_links import DATA_OF_PAGE
from monitor.web import navigation

register = template.Library()


@register.simple_tag(takes_context=True)
def header_links(context: Context) -> navigation.Navigation:
    # Error pages have no request.
    request: HttpRequest | None = context.get("request")
    match = None if request is None else request.resolver_match
    name = None if match is None else match.url_name
    return navigation.navigation(name, is_logged_in=request is not None and request.user.is_authenticated)


@register.simple_tag
def login_address(request: HttpRequest) -> str:
    return f"{reverse('login')}?{urlencode({'next': request.get_full_path()})}"


@register.simple_tag(takes_context=True)
def share_address(context: Context) -> str | None:
    """Address at which to share this page; None where it cannot be shared."""
    request: HttpRequest | None = context.get("request")
    match = None if request is None else request.resolver_match
    if request is None or match is None or match.url_name not in DATA_OF_PAGE or not request.user.is_authenticated:
        return None
    return f"{reverse('share')}?{urlencode({'address': request.get_full_path()})}" if may_operate(request) else None
