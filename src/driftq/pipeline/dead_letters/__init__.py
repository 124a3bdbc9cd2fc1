"""Dead letters of workers and projections: published to `dlq.<topic>`, listed, and redriven."""
