"""Read models in TerminusDB: a WOQL condition guards each document, and a branch holds each projection.

A projection's documents are in a branch with its name, which is what readers open. A rebuild fills a branch
of its own; publishing it resets the projection's branch to it in one step. `places.py` says how, and what a
kill between two calls leaves. The control texts of all projections are in the branch `driftq_control`, which
no reset touches.
"""

from driftq.sinks.terminusdb.sink import TerminusSink

__all__ = ["TerminusSink"]
