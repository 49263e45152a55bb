from django.apps import AppConfig


class AlertsConfig(AppConfig):
    name = "monitor.alerts"

    def ready(self) -> None:
        from monitor.alerts.detect.rules import catalogue
        from monitor.alerts.notify import system_checks  # noqa: F401 - registers them

        catalogue.register()
