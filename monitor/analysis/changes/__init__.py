"""Sudden changes in a path's RTT, and the accuracy of their detection.

`detector` finds them using only the past; `labelled` reads series with hand-labelled changes; `scoring` compares the
two. All three are pure: arrays and text in, values out. `monitor.alerts` turns changes into incidents.
docs/method/changes.md has the method and its accuracy.
"""
