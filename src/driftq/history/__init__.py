"""The history of messages and jobs: deliveries and runs, stored beside the log and read with its tail."""
