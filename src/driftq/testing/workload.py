"""The next actions of a simulated run's clients, drawn from its seed."""

from __future__ import annotations

import errno
from collections.abc import Callable

from driftq.server.requests import DrainedRequest
from driftq.testing.check_delivered import Listener
from driftq.testing.checkers import LATE_GROUP
from driftq.testing.consumer import Hand, SimConsumer, SimWorker
from driftq.testing.delay_life import DELAY_KINDS
from driftq.testing.disk import Operation
from driftq.testing.errands import Errands
from driftq.testing.identity_lives import IDENTITY_KINDS
from driftq.testing.intent import Intent
from driftq.testing.maintenance_lives import KINDS, Life
from driftq.testing.world import World

_GROUPS = ("billing", "search", LATE_GROUP)
_KEYS = ("", "user:1", "user:2", "user:3", "ключ")
_FAULTS: tuple[Operation, ...] = ("write", "sync", "allocate", "truncate", "create", "rename")


class Workload:
    """Draws one action after the other."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = random = world.random
        self._workers = [SimWorker(f"worker-{letter}") for letter in "abc"]
        self._topics = {f"t{number}": random.choice((1, 1, 2, 3)) for number in range(random.randint(1, 3))}
        self._known: list[Intent] = []
        self._values = 0
        self._release = random.random() < 0.5
        kinds = {**KINDS, **IDENTITY_KINDS, **DELAY_KINDS}
        self.lives: list[Life] = [kind(self._errands(name), world.run) for name, kind in kinds.items()]
        trouble = random.choice((0.0, 0.6, 1.5))
        self._actions: list[tuple[float, Callable[[], None]]] = [
            (30, self._produce),
            (5, self._produce_again),
            (8, self._join),
            (2, self._leave),
            (3, self._pause),
            (28, self._ack),
            (3, self._ack_again),
            (2, self._ack_for_another),
            (8, self._nack),
            (2, self._give_back),
            (4, self._extend),
            (3, self._drop),
            (12, self._read),
            (2, self._create_topic),
            (1, self._look),
            (6.25 * len(self.lives), self._live),
            (2 * trouble, self._break_disk),
            (0.5 * trouble, self._fill_disk),
            (1.5 * trouble, self._crash),
            (1 * trouble, self._plan_power_cut),
            (0.5 * trouble, self._restart),
        ]

    def begin(self) -> None:
        for name, partitions in self._topics.items():
            self._world.create_topic(name, partitions)
        self._world.run_for(50)

    def step(self) -> None:
        """One action, then a little time, or none."""
        weights = [weight for weight, _ in self._actions]
        _, action = self._random.choices(self._actions, weights)[0]
        action()
        chance = self._random.random()
        if chance > 0.97:
            self._world.run_for(self._random.randint(500, 5_000))
        elif chance > 0.8:
            self._world.run_for(self._random.randint(5, 80))
        elif chance > 0.4:
            self._world.run_for(self._random.randint(0, 5))

    def _topic(self) -> str:
        return self._random.choice(list(self._topics))

    def _create_topic(self) -> None:
        name = self._topic()
        self._world.create_topic(name, self._topics[name])

    # Producers

    def _produce(self) -> None:
        count = self._random.choice((1, 1, 1, 2, 5))
        self._world.produce([self._intent() for _ in range(count)], atomic=self._random.random() < 0.2)

    def _intent(self) -> Intent:
        random = self._random
        keyed = [intent for intent in self._known if intent.identity is not None]
        if keyed and random.random() < 0.12:
            again = random.choice(keyed)
            if random.random() < 0.6:
                return again
            return self._new_intent(again.requested_topic, identity=again.identity)
        requested = self._topic()
        identity = None
        if random.random() < 0.4:
            identity = (random.choice(("", "acme")), requested, f"key-{self._values}")
        return self._new_intent(requested, identity=identity)

    def _new_intent(self, requested: str, *, identity: tuple[str, str, str] | None) -> Intent:
        random = self._random
        self._values += 1
        intent = Intent(
            topic=self._topic() if random.random() < 0.1 else requested,
            requested_topic=requested,
            key=random.choice(_KEYS),
            value=f"v{self._values}-" + "x" * random.choice((0, 10, 10, 200, 900)),
            override=random.choice((0, 0, 1, 7)) if random.random() < 0.08 else None,
            identity=identity,
            expired=random.random() < 0.02,
        )
        self._known.append(intent)
        return intent

    def _produce_again(self) -> None:
        if self._world.unconfirmed:
            slot = self._random.randrange(len(self._world.unconfirmed))
            self._world.produce([self._world.unconfirmed.pop(slot)])

    # Consumers

    def _join(self) -> None:
        world, random = self._world, self._random
        if len(world.consumers) >= 7:
            return
        worker = random.choice(self._workers)
        group = random.choice(_GROUPS)
        listener = Listener(
            topic=self._topic(),
            group=group,
            owner=worker.owner,
            lease_ms=random.choice((700, 1_000, 1_000, 3_000)),
            release_on_close=self._release and random.random() < 0.5,
        )
        world.join(
            SimConsumer(
                listener,
                worker,
                on_delivery=world.receive,
                prefetch=random.choice((1, 3, 100)),
                latest=group == LATE_GROUP,
            )
        )

    def _leave(self) -> None:
        if self._world.consumers:
            self._world.leave(self._random.choice(self._world.consumers))

    def _pause(self) -> None:
        """A reader stops reading, or reads on."""
        if not self._world.consumers:
            return
        consumer = self._random.choice(self._world.consumers)
        if consumer.paused_at is None:
            consumer.paused_at = self._world.now
        else:
            consumer.paused_at = None
            self._world.machine.engine.submit(DrainedRequest(consumer.topic, consumer.group))

    # Workers

    def _busy(self) -> tuple[SimWorker, Hand] | None:
        busy = [worker for worker in self._workers if worker.hands]
        if not busy:
            return None
        worker = self._random.choice(busy)
        return worker, self._random.choice(worker.hands[:8])

    def _ack(self) -> None:
        if (found := self._busy()) is None:
            return
        worker, first = found
        mine = [hand for hand in worker.hands if (hand.topic, hand.group) == (first.topic, first.group)]
        count = self._random.choice((1, 1, 3, len(mine)))
        chosen = [first, *self._random.sample(mine, min(count, len(mine)))][:count]
        self._world.ack(worker.owner, chosen, with_attempt=self._random.random() < 0.5)
        for hand in chosen:
            if hand in worker.hands:
                worker.hands.remove(hand)
                worker.done.append(hand)

    def _ack_again(self) -> None:
        done = [(worker, hand) for worker in self._workers for hand in worker.done[-20:]]
        if done:
            worker, hand = self._random.choice(done)
            self._world.ack(worker.owner, [hand], with_attempt=self._random.random() < 0.5)

    def _ack_for_another(self) -> None:
        if (found := self._busy()) is not None:
            self._world.ack("stranger", [found[1]], with_attempt=False)

    def _nack(self) -> None:
        if (found := self._busy()) is not None:
            worker, hand = found
            worker.hands.remove(hand)
            self._world.nack(worker.owner, hand, reason=self._random.choice(("boom", "later", "")))

    def _give_back(self) -> None:
        """A worker has not begun with what it holds."""
        if (found := self._busy()) is not None:
            worker, hand = found
            worker.hands.remove(hand)
            self._world.nack(worker.owner, hand, started=False)

    def _extend(self) -> None:
        if (found := self._busy()) is not None:
            worker, hand = found
            self._world.extend(worker.owner, hand, lease_ms=self._random.choice((600, 1_000, 2_500)))

    def _drop(self) -> None:
        """A worker forgets what it holds."""
        if (found := self._busy()) is not None:
            found[0].hands.remove(found[1])

    # Everything else

    def _errands(self, name: str) -> Errands:
        errands = Errands(self._world, name)
        self._world.on_crash.append(errands.crashed)
        return errands

    def _live(self) -> None:
        life = self._random.choice(self.lives)
        if not life.errands.busy:
            life.step()

    def _read(self) -> None:
        self._world.read(self._topic())

    def _look(self) -> None:
        self._world.machine.compare_with_log()
        self._world.machine.engine.payloads.forget()

    def _break_disk(self) -> None:
        operation = self._random.choice(_FAULTS)
        error = self._random.choice((errno.EIO, errno.EIO, errno.ENOSPC))
        self._world.say(f"the next {operation} will fail with {errno.errorcode[error]}")
        self._world.machine.folder.fail_next(operation, error=error)

    def _fill_disk(self) -> None:
        """The disk fills up, or space is freed on it."""
        folder = self._world.machine.folder
        folder.free = 0 if folder.free else 1 << 40
        self._world.say(f"{folder.free} bytes are free")

    def _crash(self) -> None:
        self._world.crash(power=self._world.options.fsync and self._random.random() < 0.6)

    def _plan_power_cut(self) -> None:
        if self._world.options.fsync:
            self._world.machine.folder.cut_power_after(self._random.randint(0, 8))

    def _restart(self) -> None:
        self._world.stop_and_start()
