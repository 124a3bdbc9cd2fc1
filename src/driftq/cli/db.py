"""`driftq db`: upgrade the tables of a database to this release."""

import os

import typer

from driftq.cli.screen import Json, examples, say, say_json
from driftq.cli.stores import Data, opened, registry_file
from driftq.settings import load_settings

app = typer.Typer(help="Manage the tables of the database.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def db() -> None:
    """A group even while it has one command."""


@app.command(epilog=examples("driftq db upgrade", "driftq db upgrade --data ./driftq-data"))
def upgrade(data: Data = None, as_json: Json = False) -> None:
    """Create or upgrade the tables of events and claims. Repeating the command changes nothing."""
    settings = load_settings()
    folder = data or settings.data
    applied = []
    if settings.events.database_url is None:
        places = [(os.path.join(folder, "events.db"), ["events"]), (registry_file(folder), ["registry"])]
    else:
        places = [("", ["events", "registry"])]
    for file, rooms in places:
        with opened(settings, file) as database:
            from driftq.eventstore import event_migrations
            from driftq.registry.sql_registry import MIGRATIONS
            from driftq.sql import upgrade as upgrade_tables

            wanted = event_migrations(database) if "events" in rooms else []
            wanted += [MIGRATIONS] if "registry" in rooms else []
            found = upgrade_tables(database, wanted)
            applied += [(database.address, change) for change in found]
    if as_json:
        fields = ("room", "version", "name")
        say_json(
            {
                "applied": [
                    {"database": address} | {name: getattr(change, name) for name in fields}
                    for address, change in applied
                ]
            }
        )
    elif not applied:
        say("all tables are up to date")
    for address, change in () if as_json else applied:
        say(f"{address}: {change.room} {change.version:04d} {change.name}")
