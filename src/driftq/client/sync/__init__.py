"""The client for programs without an event loop, generated from the asyncio client by scripts/sync_client.py.

Only `threads.py` is written by hand.
"""
