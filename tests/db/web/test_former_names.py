"""Links with an earlier name of a site lead to the page of its present name."""

import pytest

from monitor.mesh.models import Site

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
HERE = {"host": "localhost"}


@pytest.fixture
def renamed(paths):
    Site.objects.filter(name="cern").update(former_names=["geneva", "old name"])


@pytest.mark.parametrize(
    ("link", "present"),
    [
        ("/sites/geneva/", "/sites/cern/"),
        ("/sites/old%20name/?period=day&size=100", "/sites/cern/?period=day&size=100"),
        ("/incidents/?site=geneva", "/incidents/?site=cern"),
        ("/routes/?site=geneva", "/routes/?site=cern"),
        ("/compare/?from=slac&to=geneva", "/compare/?from=slac&to=cern"),
        ("/api/v1/incidents?site=geneva", "/api/v1/incidents?site=cern"),
    ],
)
def test_a_link_with_an_earlier_name_is_redirected(client, renamed, link, present):
    answer = client.get(link, headers=HERE)

    assert (answer.status_code, answer["Location"]) == (302, present)
    assert client.get(present, headers=HERE, follow=True).status_code == 200


@pytest.mark.parametrize(
    "link", ["/sites/nowhere/", "/incidents/?site=nowhere", "/sites/geneva-2/", "/nowhere/geneva/"]
)
def test_other_names_are_not_found_as_before(client, renamed, link):
    assert client.get(link, headers=HERE).status_code == 404


def test_an_address_of_no_page_is_not_redirected_elsewhere(client, renamed):
    assert client.get("/", headers=HERE, PATH_INFO="//evil.example/sites/geneva/").status_code == 404


def test_a_reader_who_may_not_read_the_pages_learns_no_name(client, renamed):
    answer = client.get("/sites/geneva/", headers={"host": "soundings.example.org"})

    assert answer.status_code in (302, 400, 403)
    assert "cern" not in answer.get("Location", "") + answer.content.decode()
