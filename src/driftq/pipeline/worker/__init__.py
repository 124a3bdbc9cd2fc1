"""The worker on Spark: claim → effect → mark, for each event of a topic, in the order of its aggregate.

spec, context, derived      what a user declares, receives and returns
queues, task_run            a task's events run to their ends, without Spark
effect, marks               one claim from its grant to its mark
heartbeats, timing          leases, and waiting through an outage
store, guard, appending     what outlives a worker
task, job                   Spark around it
"""
