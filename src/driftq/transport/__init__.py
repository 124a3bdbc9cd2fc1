"""Speaking HTTP to a server: its endpoint, the errors in its responses, and the one blocking client.

The asyncio client (`driftq.client.wire`) is the other one. Both take an `Endpoint`, so credentials and TLS
are set up in one place. Nothing here loads msgspec: the command line starts without it.
"""
