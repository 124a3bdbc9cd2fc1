"""Producing: batches that keep their order until each message is confirmed."""
