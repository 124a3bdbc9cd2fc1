"""`driftq` with `serve` alone: what starts a server does not load the other commands."""

from driftq.cli.commands import new_app
from driftq.cli.serve import SERVE_EXAMPLES, serve

app = new_app()
app.command("serve", epilog=SERVE_EXAMPLES)(serve)
