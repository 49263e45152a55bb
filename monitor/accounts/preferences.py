"""Theme and time zone of a reader's pages, stored with the account, and in cookies for pages without login."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from django.contrib.auth.models import AnonymousUser, User

from monitor.accounts.models import UserPreferences

THEME_COOKIE = "soundings_theme"
ZONE_COOKIE = "soundings_zone"
UTC_NAME = "UTC"


class Theme(StrEnum):
    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


@dataclass(frozen=True, slots=True)
class Preferences:
    theme: Theme = Theme.SYSTEM
    time_zone: str = UTC_NAME  # IANA name

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.time_zone)


@cache
def zone_names() -> tuple[str, ...]:
    """Time zones to choose from: UTC, then places by name."""
    places = {name for name in available_timezones() if "/" in name and not name.startswith(("Etc/", "SystemV/"))}
    return (UTC_NAME, *sorted(places))


def is_zone(name: str) -> bool:
    """Whether this machine has the time zone; reads a single file."""
    if name == UTC_NAME:
        return True
    try:
        return "/" in name and bool(ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False


def from_texts(theme: str, time_zone: str) -> Preferences:
    """Parse stored preferences; invalid texts give defaults."""
    return Preferences(
        theme=Theme(theme) if theme in list(Theme) else Theme.SYSTEM,
        time_zone=time_zone if is_zone(time_zone) else UTC_NAME,
    )


def from_cookies(cookies: Mapping[str, str]) -> Preferences:
    return from_texts(cookies.get(THEME_COOKIE, ""), cookies.get(ZONE_COOKIE, ""))


def load(user: User | AnonymousUser, cookies: Mapping[str, str]) -> Preferences:
    """Preferences of the account, else of the browser."""
    row = UserPreferences.objects.filter(user_id=user.pk).first() if user.is_authenticated else None
    return from_cookies(cookies) if row is None else from_texts(row.theme, row.time_zone)


def store(user: User | AnonymousUser, preferences: Preferences) -> None:
    """Store preferences with the account, if logged in."""
    if user.is_authenticated:
        UserPreferences.objects.update_or_create(
            user_id=user.pk, defaults={"theme": preferences.theme, "time_zone": preferences.time_zone}
        )
