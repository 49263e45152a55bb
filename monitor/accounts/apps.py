from django.apps import AppConfig
from django.db.models.signals import post_migrate


class AccountsConfig(AppConfig):
    name = "monitor.accounts"

    def ready(self) -> None:
        from monitor.accounts import read_limits
        from monitor.accounts.limited_role import give_rights
        from monitor.accounts.roles import make_groups

        post_migrate.connect(make_groups, sender=self)
        post_migrate.connect(give_rights, sender=self)
        read_limits.connect()
