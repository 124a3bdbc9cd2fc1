"""The broker as a pure machine: commands are decided into records, records are folded into state.

Nothing here reads a clock, a file or a socket. Time comes in as integer milliseconds, bytes as positions.
"""
