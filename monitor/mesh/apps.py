from django.apps import AppConfig


class MeshConfig(AppConfig):
    name = "monitor.mesh"
