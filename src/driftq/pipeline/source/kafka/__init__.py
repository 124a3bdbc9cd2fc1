"""A source of Kafka's topics for readers that need the newest message of each aggregate, or key, alone."""
