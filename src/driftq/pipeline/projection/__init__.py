"""Projections: streams that keep read models of topics."""
