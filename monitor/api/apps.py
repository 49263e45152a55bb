from django.apps import AppConfig
from django.db.models.signals import post_migrate


class ApiConfig(AppConfig):
    name = "monitor.api"

    def ready(self) -> None:
        from monitor.api.roles import make_groups

        post_migrate.connect(make_groups, sender=self)
