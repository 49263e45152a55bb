"""The settings of the centre, with this application."""

from monitor.settings import *  # noqa: F403
from monitor.settings import INSTALLED_APPS as OURS

INSTALLED_APPS = [*OURS, "tests.db.planted_migration"]
