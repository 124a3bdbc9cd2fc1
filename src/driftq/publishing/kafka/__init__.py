"""Lanes and their positions on Kafka."""
