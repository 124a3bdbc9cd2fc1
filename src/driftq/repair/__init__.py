"""Maintaining the files of a server: doctor, backup and restore."""
