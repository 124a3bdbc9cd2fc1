"""Bytes on disk: the log's frames, segments, writing and recovery. It does not interpret the records."""

from driftq.log.files import File, Folder
from driftq.log.frame import MAX_PAYLOAD, Frame
from driftq.log.log import Log
from driftq.log.recovery import Cut, Recovery

__all__ = ["MAX_PAYLOAD", "Cut", "File", "Folder", "Frame", "Log", "Recovery"]
