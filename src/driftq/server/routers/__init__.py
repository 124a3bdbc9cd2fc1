"""Routers that ship: rules in a file, and a webhook. A Python callable needs nothing from here."""
