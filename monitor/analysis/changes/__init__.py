"""Sudden changes in a path's RTT, and the accuracy of their detection (docs/method/changes.md). Pure: arrays and text
in, values out."""
