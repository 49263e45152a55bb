from django.apps import AppConfig


class AgentsConfig(AppConfig):
    name = "monitor.agents"
