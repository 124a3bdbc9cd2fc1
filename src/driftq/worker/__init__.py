"""The worker: handlers for messages and jobs, and everything around them that makes an effect count once."""

from driftq.registry.handler import Effect
from driftq.registry.verdict import Reject, Retry
from driftq.worker.context import Context, JobContext
from driftq.worker.jobs.handle import JobHandle
from driftq.worker.task_options.limits import JobLimits
from driftq.worker.tasks import Jobs, Task
from driftq.worker.worker import Settled, Worker

__all__ = [
    "Context",
    "Effect",
    "JobContext",
    "JobHandle",
    "JobLimits",
    "Jobs",
    "Reject",
    "Retry",
    "Settled",
    "Task",
    "Worker",
]
