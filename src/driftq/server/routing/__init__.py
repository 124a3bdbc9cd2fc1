"""Routers: rules in a file, a webhook or a Python callable, called off the event loop."""
