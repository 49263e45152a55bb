"""The choices behind "View" of the grid are kept for each reader."""

import pytest

from monitor.mesh.models import Group
from tests.db.mesh_of_three import make_mesh

pytestmark = pytest.mark.django_db


@pytest.fixture
def get(client):
    make_mesh()
    return lambda address: client.get(address, headers={"host": "localhost"})


def test_a_choice_of_the_view_is_kept_and_one_beside_it_is_not(get):
    assert get("/?metric=rtt&order=worst&paths=problems&keep=1").url == "/?metric=rtt&order=worst&paths=problems"
    assert get("/").url == "/?order=worst&paths=problems"
    assert get("/?metric=loss").url == "/?order=worst&paths=problems&metric=loss"


@pytest.mark.parametrize("address", ["/?order=site", "/?parts=1", "/?wall=1"])
def test_an_address_with_a_view_is_whole(get, address):
    get("/?order=worst&keep=1")

    assert get(address).status_code == 200


def test_the_first_choices_end_what_is_kept(get):
    get("/?order=worst&keep=1")
    assert get("/?order=site&paths=&against=&keep=1").url == "/?order=site&paths=&against="

    assert get("/").status_code == 200


def test_a_kept_group_that_was_removed_is_forgotten(get):
    group = Group.objects.create(name="alps", shape="mesh")
    get("/?group=alps&keep=1")
    assert get(get("/").url).status_code == 200
    group.delete()

    kept = get("/").url
    assert get(kept).url == "/"
    assert get("/").status_code == 200
    assert get("/?group=alps").status_code == 404


@pytest.mark.parametrize("cookie", ["size=abc", "order=up", "\x00=1", "a" * 5000, "order=worst&period=day&keep=1"])
def test_a_strange_cookie_does_no_harm(get, client, cookie):
    client.cookies["soundings_view"] = cookie
    answer = get("/")
    while answer.status_code == 302:
        answer = get(answer.url)

    assert answer.status_code == 200
