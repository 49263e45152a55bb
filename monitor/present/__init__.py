"""The present condition of each path, derived once from its newest bursts."""
