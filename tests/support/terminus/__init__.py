"""A stand-in for a TerminusDB server, for the calls that were recorded from a real one (12.0.6).

It is a process of its own with a durable folder, and can be killed and started again. Where it differs from
the recording, `tests/conformance/terminusdb/test_recorded.py` fails. It takes more than was recorded where
nothing else can be meant: other names, other values, more parts in a query.
"""
