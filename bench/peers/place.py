"""Where the other queues are installed."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".venv-peers"
