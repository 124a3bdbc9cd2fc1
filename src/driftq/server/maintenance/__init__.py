"""The server's own folder: retention, disk space, new segments, rounds of the housekeeper."""
