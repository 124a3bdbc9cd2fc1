"""The command line: `driftq`, one module per noun."""


def main() -> None:
    """Run the command that the arguments name, and exit."""
    from driftq.cli.app import app

    app(prog_name="driftq")
