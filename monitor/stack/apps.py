from django.apps import AppConfig


class StackConfig(AppConfig):
    name = "monitor.stack"

    def ready(self) -> None:
        # Shared tasks are sent by this application. Processes without Django start in half the time without Celery.
        from monitor import celery  # noqa: F401
