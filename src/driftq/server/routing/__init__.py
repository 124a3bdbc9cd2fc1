"""Routers: rules in a file, a webhook or a Python callable, asked off the event loop."""
