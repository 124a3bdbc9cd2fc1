"""The worker on Spark: claim → effect → mark, for each event of a topic, in the order of its aggregate.

spec, context, derived           what a user declares, receives and returns
aggregate_queues, partition_run  one partition's events run to their ends, without Spark
effect, heartbeats, timing       one claim, its lease, and waiting through an outage
store, guard, appending          what outlives a worker
task, job                        Spark around it
"""
