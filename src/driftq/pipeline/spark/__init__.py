"""Spark itself: Java, sessions, formats, and what its Python workers have."""
