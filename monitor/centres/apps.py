from django.apps import AppConfig


class CentresConfig(AppConfig):
    name = "monitor.centres"

    def ready(self) -> None:
        from monitor.centres import system_checks  # noqa: F401 (registers the check)
