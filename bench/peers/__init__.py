"""Other job queues for Python, each as its users run it: one module that defines a no-op and enqueues it.

These modules are run by the Python of the peers' own environment, never imported by the benchmarks.
"""
