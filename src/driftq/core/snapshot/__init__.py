"""Snapshots of the state: named byte strings, one pair of functions for each component."""
