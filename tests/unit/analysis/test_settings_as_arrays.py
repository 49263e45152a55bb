"""Settings of a rule by path, as arrays."""

import numpy as np

from monitor.alerts.detect.rules.reach import UnreachableRule
from monitor.analysis.alarms import by_setting

SHORT, LONG = UnreachableRule(after_s=60), UnreachableRule(after_s=600)


def test_each_path_has_the_value_of_its_settings():
    settings = {7: SHORT, 3: LONG, 5: SHORT}

    np.testing.assert_array_equal(by_setting.each(settings, lambda rule: rule.after_s), [60, 600, 60])


def test_of_a_mesh_with_the_same_settings_the_value_is_asked_once():
    asked = []

    values = by_setting.each(dict.fromkeys(range(1000), SHORT), lambda rule: asked.append(rule) or rule.after_s)

    assert asked == [SHORT]
    assert values.tolist() == [60.0] * 1000


def test_no_path_has_no_value():
    assert by_setting.each({}, lambda rule: rule.after_s).tolist() == []
    assert by_setting.distinct({}) == []
    assert by_setting.rows_of({}, {}).tolist() == []


def test_rows_are_in_the_order_of_the_settings():
    assert by_setting.rows_of({7: SHORT, 3: LONG}, {3: 0, 5: 1, 7: 2}).tolist() == [2, 0]


def test_the_same_settings_on_all_paths_are_as_those_of_each():
    settings = by_setting.OneForAll(SHORT, [7, 3])

    assert (settings == {7: SHORT, 3: SHORT}, list(settings.items())) == (True, [(7, SHORT), (3, SHORT)])
    assert (list(settings.values()), settings.get(5), LONG in settings.values()) == ([SHORT, SHORT], None, False)
    assert by_setting.distinct(settings) == [SHORT]
    assert by_setting.each(settings, lambda rule: rule.after_s).tolist() == [60.0, 60.0]
    assert by_setting.distinct(by_setting.OneForAll(SHORT, [])) == []
