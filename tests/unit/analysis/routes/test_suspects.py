"""The common part of bad paths: worked meshes, and simulated meshes with planted faults."""

from __future__ import annotations

from monitor.analysis.routes.crossings import Level, MeshPath, Part, fill_silent, find_crossings
from monitor.analysis.routes.suspects import rank_suspects
from tests.routes.meshes import faulty_mesh


def mesh(routes, bad):
    """Paths from site to site by the letters of their hops, "." where silent; `bad` are indexes."""
    return [
        MeshPath(place in bad, text[0], text[-1], tuple(None if hop == "." else hop for hop in text[1:-1]))
        for place, text in enumerate(routes)
    ]


def suspects(paths, as_of=lambda address: None):
    return rank_suspects(paths, find_crossings(paths, as_of), as_of)


ROUTES = ("AxyB", "AxyC", "DxyB", "DxzC", "AxzE", "DwzE", "FwyB", "FwzC", "AwzC", "FxzE")


def test_the_link_that_bad_paths_share_is_named():
    result = suspects(mesh(ROUTES, {0, 1, 2}))

    assert Part(Level.LINK, ("x", "y")) in result.parts[0].parts
    assert result.parts[0].probability > 0.8
    assert (result.parts[0].bad, result.parts[0].crossing) == (3, 3)


def test_parts_that_the_same_paths_cross_are_named_together():
    result = suspects(mesh(("AuvxB", "AuvxC", "AuvyD", "EwxB", "EwyC", "EwyD", "GwxC", "GwyB"), {0, 1, 2}))

    certain = result.certain()
    assert certain is not None
    assert {Part(Level.LINK, ("A", "u")), Part(Level.LINK, ("u", "v"))} <= set(certain.parts)


def test_bad_paths_without_a_common_part_are_not_explained():
    assert suspects(mesh(ROUTES, {0, 5, 8})).certain() is None


def test_a_single_bad_path_has_no_common_part():
    assert suspects(mesh(ROUTES, {0})).parts == ()


def test_silent_hops_are_filled_from_paths_beside_them():
    routes = [("A", "x", "y", "B"), ("A", None, "y", "C"), ("D", "x", None, "B"), ("E", None, "y", "B")]

    filled, guesses = fill_silent(routes)

    assert filled == [("A", "x", "y", "B"), ("A", "x", "y", "C"), ("D", "x", "y", "B"), ("E", None, "y", "B")]
    assert guesses == {}


def test_silent_hops_that_others_fill_differently_stay_silent():
    filled, guesses = fill_silent([("A", "x", "B"), ("A", "y", "B"), ("A", None, "B")])

    assert filled[2] == ("A", None, "B")
    assert guesses == {("A", "B", 2): [("A", "x", "B"), ("A", "y", "B")]}


def test_the_paths_across_each_part_are_listed():
    crossings = find_crossings(mesh(("AxyB", "Ax.C"), ()))

    assert crossings.certain(Part(Level.HOP, ("x",))) == {0, 1}
    assert crossings.certain(Part(Level.LINK, ("x", "y"))) == {0}
    assert crossings.certain(Part(Level.LINK, ("x", "C"))) == {1}


def test_a_border_is_crossed_for_certain_behind_one_silent_hop():
    numbers = {"x": 1, "y": 1, "z": 2, "w": 2}

    crossings = find_crossings(mesh(("AxzB", "Ay.wC", "Ax..wB"), ()), numbers.get)

    assert crossings.certain(Part(Level.BORDER, ("1", "2"))) == {0, 1}
    assert crossings.of_part[Part(Level.BORDER, ("1", "2"))].keys() == {0, 1, 2}
    assert crossings.certain(Part(Level.AS, ("2",))) == {0, 1, 2}


def test_a_path_of_unknown_state_does_not_speak_against_a_part():
    """Of the four paths over x – y two are bad, and two are normal or not known."""
    routes = ("AxyB", "AxyC", "DxyB", "DxyC", "AxzE", "DwzE", "FwyB", "FwzC", "AwzC", "FxzE")

    def probability(unknown):
        paths = [
            MeshPath(None if place in unknown else path.is_bad, path.source, path.destination, path.forward)
            for place, path in enumerate(mesh(routes, {0, 1}))
        ]
        entries = suspects(paths).parts
        return next(entry.probability for entry in entries if Part(Level.LINK, ("x", "y")) in entry.parts)

    assert probability({2, 3}) > probability(()) + 0.05


def test_the_as_of_the_suspects_has_their_probability():
    numbers = {"x": 20965, "y": 20965, "w": 174, "z": 513}

    result = suspects(mesh(ROUTES, {0, 1, 2}), numbers.get)

    assert result.places[0].parts == (Part(Level.AS, ("20965",)),)
    assert result.places[0].probability >= result.parts[0].probability


def test_planted_links_of_simulated_meshes_are_named():
    """Ten sites, 30% of hops silent, asymmetric routes, and noise in which paths look bad."""
    right, wrong = 0, 0
    for seed in range(25):
        simulated = faulty_mesh(seed)
        result = suspects(simulated.paths, simulated.as_of)
        right += simulated.is_right(result.parts[0])
        certain = result.certain()
        wrong += certain is not None and not simulated.is_right(certain)
    assert right >= 22
    assert wrong <= 1


def test_either_of_two_planted_links_is_named():
    for seed in range(10):
        simulated = faulty_mesh(seed, faults=2)
        certain = suspects(simulated.paths, simulated.as_of).certain()
        assert certain is None or simulated.is_right(certain)
