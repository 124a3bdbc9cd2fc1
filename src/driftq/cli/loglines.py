"""Log lines on stderr for long-running commands: time, level, logger, message."""

import logging
import sys
import time


def log_to_stderr() -> None:
    lines = logging.Formatter(
        "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S"
    )
    lines.converter = time.gmtime
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(lines)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
