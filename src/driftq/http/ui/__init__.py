"""The dashboard at `/v1/ui`: its files, its sessions, its live numbers, and the lists that only it needs."""
