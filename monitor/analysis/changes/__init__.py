"""Sudden changes in a path's round-trip times, and how well they are found.

`detector` finds them and sees only the past; `labelled` reads series whose changes a person has marked; `scoring`
compares the two. All three are pure: arrays and text in, values out. Not here: when a change becomes an incident, and
who is told (`monitor.alerts`). What the method rests on and what it reaches is in docs/changes.md.
"""
