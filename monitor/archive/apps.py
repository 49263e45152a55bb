from django.apps import AppConfig
from django.core.checks import Tags, register


class ArchiveConfig(AppConfig):
    name = "monitor.archive"

    def ready(self) -> None:
        from monitor.archive.upkeep import chunks, system_checks, upgrade_checks
        from monitor.mesh.apply import applied

        register(system_checks.check_database, Tags.database)
        register(upgrade_checks.check_upgrade, Tags.database)
        applied.connect(chunks.choose)
