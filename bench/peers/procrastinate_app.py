"""Procrastinate on PostgreSQL: a job is a row, and so is each of its states."""

from procrastinate import App, PsycopgConnector

from bench.peers.counting import JOBS, URL, count

app = App(connector=PsycopgConnector(conninfo=URL))


@app.task(name="nothing")
async def nothing(number: int) -> None:
    count()


def enqueue() -> None:
    with app.open():
        if not app.check_connection():
            app.schema_manager.apply_schema()
        for number in range(JOBS):
            nothing.defer(number=number)
