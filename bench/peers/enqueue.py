"""`python -m bench.peers.enqueue NAME`: enqueue the jobs of that module, imported as its worker does."""

import importlib
import sys

if __name__ == "__main__":
    importlib.import_module(f"bench.peers.{sys.argv[1]}").enqueue()
