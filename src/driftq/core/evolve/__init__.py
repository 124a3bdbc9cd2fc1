"""Folding records into the state: `fold` dispatches on the kind of record, `remove` takes things away."""
