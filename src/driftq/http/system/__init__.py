"""The server about itself: health, readiness, version, metrics, the documentation page."""
