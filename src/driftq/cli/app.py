"""The commands put together."""

from driftq.cli import (
    db,
    dlq,
    event,
    group,
    job,
    key,
    outbox,
    pipeline,
    queue,
    registry,
    schedule,
    step,
    topic,
)
from driftq.cli.commands import new_app
from driftq.cli.config import CONFIG_EXAMPLES, config
from driftq.cli.consume import CONSUME_EXAMPLES, consume
from driftq.cli.doctor import BACKUP_EXAMPLES, DOCTOR_EXAMPLES, RESTORE_EXAMPLES, backup, doctor, restore
from driftq.cli.explain import EXPLAIN_EXAMPLES, explain
from driftq.cli.messages import MESSAGES_EXAMPLES, messages
from driftq.cli.produce import PRODUCE_EXAMPLES, produce
from driftq.cli.publish import PUBLISH_EXAMPLES, publish
from driftq.cli.serve import SERVE_EXAMPLES, serve
from driftq.cli.settle import ACK_EXAMPLES, NACK_EXAMPLES, ack, nack
from driftq.cli.top import TOP_EXAMPLES, top
from driftq.cli.version import VERSION_EXAMPLES, version
from driftq.cli.worker import WORK_EXAMPLES, WORKER_EXAMPLES, work, worker

app = new_app()
app.command("serve", epilog=SERVE_EXAMPLES)(serve)
app.add_typer(topic.app, name="topic")
app.add_typer(group.app, name="group")
app.command("produce", epilog=PRODUCE_EXAMPLES)(produce)
app.command("consume", epilog=CONSUME_EXAMPLES)(consume)
app.command("ack", epilog=ACK_EXAMPLES)(ack)
app.command("nack", epilog=NACK_EXAMPLES)(nack)
app.add_typer(dlq.app, name="dlq")
job.app.command("work", epilog=WORK_EXAMPLES)(work)
app.add_typer(job.app, name="job")
app.add_typer(schedule.app, name="schedule")
app.add_typer(queue.app, name="queue")
app.command("worker", epilog=WORKER_EXAMPLES)(worker)
app.command("messages", epilog=MESSAGES_EXAMPLES)(messages)
app.command("explain", epilog=EXPLAIN_EXAMPLES)(explain)
app.add_typer(step.app, name="step")
app.command("top", epilog=TOP_EXAMPLES)(top)
app.add_typer(event.app, name="event")
app.add_typer(event.app, name="events", hidden=True)  # The plural, as in the path of the HTTP interface.
app.command("publish", epilog=PUBLISH_EXAMPLES)(publish)
app.add_typer(outbox.app, name="outbox")
app.add_typer(pipeline.app, name="pipeline")
app.add_typer(registry.app, name="registry")
app.add_typer(key.app, name="key")
app.add_typer(db.app, name="db")
app.command("config", epilog=CONFIG_EXAMPLES)(config)
app.command("doctor", epilog=DOCTOR_EXAMPLES)(doctor)
app.command("backup", epilog=BACKUP_EXAMPLES)(backup)
app.command("restore", epilog=RESTORE_EXAMPLES)(restore)
app.command("version", epilog=VERSION_EXAMPLES)(version)
