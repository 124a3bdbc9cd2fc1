"""The registry of claims, beside the broker."""
