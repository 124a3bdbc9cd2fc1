"""Settling: acks, nacks, extensions and expiries, and dead-lettering."""
