"""The worker on Spark: claim → effect → mark, for each event of a topic, in the order of its aggregate.

spec, context, derived      what a user declares, is given and gives back
lanes, partition_run        one partition's events run to their ends; nothing here knows Spark
effect, heartbeats, timing  one claim, its lease, and waiting for whoever is away
ledger, guard, appending    what outlives a worker
task, job                   Spark around it
"""
