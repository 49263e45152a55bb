"""What the documents point to is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document):
    targets = re.findall(r"\]\(([^)#\s]+)", document.read_text())
    local = [target for target in targets if "://" not in target]

    missing = [target for target in local if not (document.parent / target).exists()]

    assert missing == []
