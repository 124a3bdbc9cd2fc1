"""Spark itself: Java, sessions, formats, and the setup of its Python workers."""
