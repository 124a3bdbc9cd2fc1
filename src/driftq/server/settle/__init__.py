"""Settling: acks, nacks, extensions and expiries, and messages that a group gives up."""
