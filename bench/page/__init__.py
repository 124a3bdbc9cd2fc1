"""The results that the documentation shows: one committed JSON file, the tables and the charts made from it.

make bench-page JSON="run.json …"   take over the figures of these runs, and write tables and charts
python -m bench.page --check        fail where page or charts differ from the file
"""
