from django.apps import AppConfig
from django.core.checks import Tags, register


class AgentsConfig(AppConfig):
    name = "monitor.agents"

    def ready(self) -> None:
        from monitor.agents import system_checks

        register(system_checks.check_agents, Tags.database)
