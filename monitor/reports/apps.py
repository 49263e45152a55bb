from typing import Any

from django.apps import AppConfig


class ReportsConfig(AppConfig):
    name = "monitor.reports"

    def ready(self) -> None:
        from monitor.mesh.renaming import site_renamed

        site_renamed.connect(rename_subscriptions)


def rename_subscriptions(*, old: str, new: str, **_: Any) -> None:
    """Rename the site in subscriptions to its report (signal receiver)."""
    from monitor.reports.models import Subscriber

    Subscriber.objects.filter(scope="site", name=old).update(name=new)
