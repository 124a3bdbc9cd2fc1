"""Effects of consumers: begin, commit, fail, extend, status."""
