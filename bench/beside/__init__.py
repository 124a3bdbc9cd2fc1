"""DriftQ beside its peers, in the same run: each module is one question, measured in rounds by turns."""
