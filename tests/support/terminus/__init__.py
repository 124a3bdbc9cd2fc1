"""A stand-in for a TerminusDB server, for the calls that were recorded from a real one (12.0.6).

It is a process of its own with a durable folder, and can be killed and started again. Where it is told apart from
the recording, `tests/services/terminusdb/test_recorded.py` fails. It takes more than the recording has only where
that is a matter of course: other names, other values, more parts in a query.
"""
