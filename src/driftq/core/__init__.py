"""The broker as a pure machine: commands are decided into records, records are folded into state.

Nothing here reads a clock, a file or a socket. Time is an argument in integer milliseconds, bytes are
positions.
"""
