"""Compressed answers: static files under hashed names, kept for ever, and every text that is made anew."""

import gzip
import re
from pathlib import Path

import pytest

from monitor.web import labels, static_files
from tests.db.incident_rows import watched

pytestmark = pytest.mark.django_db
SOURCES = Path(labels.__file__).parent / "static/web"
GZIP = {"HTTP_ACCEPT_ENCODING": "gzip"}


@pytest.fixture(autouse=True)
def stored(settings, tmp_path):
    settings.PUBLIC_READ = True
    settings.DATA_DIR = tmp_path


def body(answer):
    return b"".join(answer) if answer.streaming else answer.content


def address_of(client, stem, suffix):
    page = client.get("/table/").content.decode()
    return re.search(rf'"(/static/web/{stem}\.[0-9a-f]{{12}}\.{suffix})"', page)[1]


@pytest.mark.parametrize(("stem", "suffix", "share"), [("style", "css", 0.35), ("live", "js", 0.45)])
def test_style_and_scripts_are_compressed_and_kept_for_ever(client, stem, suffix, share):
    address = address_of(client, stem, suffix)

    plain, packed = client.get(address, HTTP_ACCEPT_ENCODING=""), client.get(address, **GZIP)

    content = (SOURCES / f"{stem}.{suffix}").read_bytes()
    assert body(plain) == content
    sent = body(packed)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert packed.headers["Vary"] == "Accept-Encoding"
    assert gzip.decompress(sent) == content
    assert len(sent) < share * len(content)
    assert packed.headers["Cache-Control"] == "max-age=315360000, public, immutable"
    assert packed.headers["Content-Type"].startswith("text/")


def test_every_file_is_stored_whole_under_its_hash(tmp_path):
    names = static_files.hashed_names(tmp_path)

    assert all(
        (tmp_path / hashed).read_bytes() == (SOURCES.parent / name).read_bytes() for name, hashed in names.items()
    )
    assert {"web/style.css", "web/dark.css", "web/live.js", "web/favicon.svg"} <= set(names)
    assert not list(tmp_path.rglob(".*")), "no half-written file is left"


def test_names_without_a_hash_are_asked_for_again(client):
    assert client.get("/static/web/style.css").headers["Cache-Control"] == "max-age=60, public"


def test_pages_open_where_the_data_folder_cannot_be_written(client, tmp_path):
    (tmp_path / "web").write_text("no folder")

    page = client.get("/table/").content.decode()

    assert '"/static/web/style.css"' in page
    assert client.get("/static/web/style.css").status_code == 200


def test_no_file_outside_of_the_folder_is_found(tmp_path):
    (tmp_path / "secret_key").write_text("hidden")
    (tmp_path / "web/static").mkdir(parents=True)

    assert static_files.HashedFinder().find("../../secret_key") is None


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("/", "text/html"),
        ("/map/", "text/html"),
        ("/api/v1/sites", "application/json"),
    ],
)
def test_texts_are_compressed_for_who_accepts_it(client, address, kind):
    watched()

    plain, packed = client.get(address, HTTP_ACCEPT_ENCODING=""), client.get(address, **GZIP)

    assert packed.headers["Content-Type"].startswith(kind)
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert len(body(packed)) < 0.6 * len(body(plain))
    assert "Accept-Encoding" in packed.headers["Vary"]


def test_the_length_of_a_page_does_not_tell_its_content(client):
    """The header of the compressed page has a random length, against BREACH."""
    lengths = {len(client.get("/login/", **GZIP).content) for _ in range(12)}

    assert len(lengths) > 3
