"""Consuming: streams that reconnect, deliveries and their acks."""
