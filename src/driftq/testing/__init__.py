"""For tests of DriftQ and of programs that use it: a virtual clock, a faulty disk, a simulated broker."""

from driftq.testing.broker import Handed, SimBroker, SimStream
from driftq.testing.clock import VirtualClock
from driftq.testing.disk import SimFolder

__all__ = ["Handed", "SimBroker", "SimFolder", "SimStream", "VirtualClock"]
