"""The command line: `driftq`, one module per noun."""

import gc
import sys


def main() -> None:
    """Run the command that the arguments name, and exit."""
    if sys.argv[1:2] == ["serve"]:
        gc.disable()  # Modules and a restored log are no garbage: the server never looks through them.
        from driftq.cli.server_app import app  # Without what the other commands need.
    else:
        from driftq.cli.app import app

    app(prog_name="driftq")
