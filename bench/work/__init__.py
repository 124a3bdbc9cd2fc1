"""Work that the server does for one operation, counted: two versions of the code side by side.

Times on a shared machine say little. Where valgrind is installed, callgrind counts the instructions that the
server's process executes: the same count, to within a percent, whatever else the machine does. Elsewhere it
is processor time, over alternated pairs of runs. The figure is the ratio of the two versions; the older one
is named in `record.json`.

    make work                   compare this checkout with the recorded version
    make work ARGS=--record     the same, then let the record name the current commit
"""
