from django.apps import AppConfig


class PresentConfig(AppConfig):
    name = "monitor.present"
