from django.apps import AppConfig


class AlertsConfig(AppConfig):
    name = "monitor.alerts"

    def ready(self) -> None:
        from monitor.alerts import checks  # noqa: F401 - registers them
