"""The history of messages and jobs: who got what when, kept beside the log and read with its tail."""
