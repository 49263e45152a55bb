"""A mesh.toml applied by its commands, and the agent of its site `here`, in this process."""

from pathlib import Path

from django.core.management import call_command
from django.utils import timezone

from monitor.agents.models import issue_token
from monitor.mesh.models import Site
from probes.site import identity
from probes.site.agent import Agent
from probes.site.settings import AgentSettings


def apply_file(folder: Path, mesh: str) -> None:
    """Check and apply a mesh.toml with this text."""
    file = folder / "mesh.toml"
    file.write_text(mesh)
    call_command("mesh", "check", str(file), verbosity=0)
    call_command("mesh", "apply", str(file), verbosity=0)


def agent_of_site(folder: Path, url: str, limits: str) -> Agent:
    """The agent of the site `here`, with a token and this limits.toml."""
    (folder / "limits.toml").write_text(limits)
    token_file = folder / "token"
    token_file.write_text(issue_token(Site.objects.get(name="here").pk, timezone.now()))
    token_file.chmod(0o600)
    settings = AgentSettings(
        centre=url,
        token_file=str(token_file),
        data=str(folder),
        identity=str(identity.begin(folder / "identity.json")),
        limits_file=str(folder / "limits.toml"),
    )
    return Agent(settings)
