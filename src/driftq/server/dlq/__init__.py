"""Dead letters: pages of them, redrive and purge."""
