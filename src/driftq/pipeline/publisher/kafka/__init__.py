"""Publishing to Kafka: a transaction holds events of a lane and the lane's new position."""
