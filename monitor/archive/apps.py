from django.apps import AppConfig
from django.core.checks import Tags, register


class ArchiveConfig(AppConfig):
    name = "monitor.archive"

    def ready(self) -> None:
        from monitor.archive.upkeep import chunks, system_checks
        from monitor.mesh.apply import applied

        register(system_checks.check_database, Tags.database)
        applied.connect(chunks.choose)
