"""Write the sync client from the asyncio client: signatures and docstrings are written by hand once.

python scripts/sync_client.py            write src/driftq/client/sync
python scripts/sync_client.py --check    fail if a module is not what would be written

Each public method of an asyncio class becomes a method of its sync class. A plain call is made on its own
caller's thread, everything else on the client's loop thread. In annotations and docstrings `AsyncX` becomes
`X` and an async iterator an iterator; `__aenter__` becomes `__enter__`. Private methods are left out.
"""

import argparse
import ast
import builtins
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"


@dataclass(frozen=True, kw_only=True)
class Twin:
    """An asyncio class and where its sync class goes."""

    source: str
    """The module of the asyncio class."""
    name: str
    into: str = ""
    """The module to write, in `driftq.client.sync`, where it is not called as the source is."""
    parents: tuple[str, ...] = ()
    """Classes of `threads.py` with what only the sync class has."""
    opening: tuple[str, ...] = ()
    """The body of `__init__` where users construct the class themselves; {arguments} are its own."""
    binding: tuple[str, ...] = ()
    """The first lines of `__init__` where the client constructs it."""
    closing: tuple[str, ...] = ()
    """The body of `close` where more is closed than the asyncio object."""
    slots: bool = False
    on_loop: frozenset[str] = frozenset()
    """Methods that are more than plain calls, or EVERY: they wait for other tasks, on the client's loop."""

    @property
    def target(self) -> str:
        return f"driftq.client.sync.{self.into or self.source.rpartition('.')[2]}"

    @property
    def sync_name(self) -> str:
        return self.name.removeprefix("Async")


THREADS = "driftq.client.sync.threads"
EVERY = frozenset({"*"})
TWINS = (
    Twin(
        source="driftq.client.async_client",
        name="AsyncClient",
        into="client",
        parents=("ThreadClient",),
        on_loop=frozenset({"produce", "produce_many", "ack", "ack_many", "nack", "extend", "close"}),
        opening=('self._bind(AsyncClient({arguments}), LoopThread("driftq-client"))',),
        closing=(
            "if self._thread.alive:",
            "    self._thread.run(self._awaited.close())",
            "    self._thread.close()",
        ),
    ),
    Twin(source="driftq.client.effects", name="AsyncIdempotency"),
    Twin(
        source="driftq.client.job_calls",
        name="AsyncJobCalls",
        on_loop=frozenset({"enqueue_many"}),
    ),
    Twin(
        source="driftq.client.schedule_calls",
        name="AsyncScheduleCalls",
    ),
    Twin(source="driftq.client.queue_calls", name="AsyncQueueCalls"),
    Twin(source="driftq.client.dead_letters", name="AsyncDeadLetters"),
    Twin(source="driftq.client.operating", name="AsyncMessageSearch", into="message_search"),
    Twin(source="driftq.client.operating", name="AsyncRegistryCalls", into="registry_calls"),
    Twin(source="driftq.client.operating", name="AsyncPipelines", into="pipelines"),
    Twin(
        source="driftq.client.consuming.consumer",
        name="AsyncConsumer",
        parents=("DeliveryIterator",),
        on_loop=EVERY,
    ),
    Twin(
        source="driftq.client.consuming.delivery",
        name="AsyncDelivery",
        binding=("super().__init__(awaited._line, awaited._settling, awaited.lease_ms)",),
        slots=True,
        on_loop=EVERY,
    ),
    Twin(
        source="driftq.client.follower",
        name="AsyncEventFollower",
        parents=("EventIterator",),
        on_loop=EVERY,
    ),
    Twin(
        source="driftq.client.event_store",
        name="AsyncEventStore",
        on_loop=frozenset({"close"}),
        opening=(
            "self._owns_client = isinstance(server, str)",
            "self._client = Client(server) if isinstance(server, str) else server",
            "self._awaited = AsyncEventStore(self._client.awaited)",
            "self._thread = self._client.thread",
        ),
        closing=(
            "if self._thread.alive:",
            "    self._thread.run(self._awaited.close())",
            "if self._owns_client:",
            "    self._client.close()",
        ),
    ),
)
BY_NAME = {twin.name: twin for twin in TWINS}
LEFT_OUT = frozenset({"connector"})
"""Parameters of the asyncio constructors that the sync ones do not have."""
DUNDERS = {"__aenter__": "__enter__", "__aexit__": "__exit__"}
PHRASES = {
    "`async with`": "`with`",
    "`async for`": "`for`",
    "Use it on one event loop, that of its client": "Any thread may use it",
    "Use it on one event loop, with": "Any thread may use it, with",
    "For one task at a time": "For one thread at a time",
    "an `AsyncClient`": "a `Client`",
}
"""What a docstring says of the asyncio class, and what it says of the sync one."""
FROM_ANYWHERE = {
    "Iterator": "collections.abc",
    "LoopThread": "driftq.client.loop_thread",
    "ThreadClient": THREADS,
    "DeliveryIterator": THREADS,
    "EventIterator": THREADS,
    **{twin.name: twin.source for twin in TWINS},
    **{twin.sync_name: twin.target for twin in TWINS},
}

Method = ast.FunctionDef | ast.AsyncFunctionDef


def sync_names(text: str) -> str:
    """Annotations and docstrings of an asyncio class, said of the sync one."""
    for phrase, ours in PHRASES.items():
        text = text.replace(phrase, ours)
    text = text.replace("AsyncIterator", "Iterator")
    return re.sub(
        r"\bAsync\w+", lambda found: found[0].removeprefix("Async") if found[0] in BY_NAME else found[0], text
    )


class Module:
    """An asyncio module, read."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self._text = text
        self._tree = ast.parse(text)

    def class_named(self, name: str) -> ast.ClassDef:
        [found] = [node for node in self._tree.body if isinstance(node, ast.ClassDef) and node.name == name]
        return found

    def imports(self) -> dict[str, str]:
        """The statement that brings each name of this module into another one."""
        statements: dict[str, str] = {}
        for node in self._tree.body:
            if isinstance(node, ast.ImportFrom | ast.Import):
                start = f"from {node.module} import " if isinstance(node, ast.ImportFrom) else "import "
                for alias in node.names:
                    renamed = f" as {alias.asname}" if alias.asname else ""
                    statements[alias.asname or alias.name] = f"{start}{alias.name}{renamed}"
            elif isinstance(node, ast.ClassDef):
                statements[node.name] = f"from {self.name} import {node.name}"
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        statements[target.id] = f"from {self.name} import {target.id}"
        return statements

    def docstring(self, node: ast.ClassDef | Method) -> Iterator[str]:
        """As it is written, quotes and indentation included."""
        first = node.body[0]
        if (
            isinstance(first, ast.Expr)
            and isinstance(first.value, ast.Constant)
            and isinstance(first.value.value, str)
        ):
            yield sync_names(ast.get_source_segment(self._text, first.value) or "")


def arguments(method: Method) -> str:
    """What a method is called with to get all of its own parameters passed on."""
    given = method.args
    passed = [argument.arg for argument in (*given.posonlyargs, *given.args) if argument.arg != "self"]
    passed += [f"{argument.arg}={argument.arg}" for argument in given.kwonlyargs]
    passed += [f"**{given.kwarg.arg}"] if given.kwarg else []
    return ", ".join(passed)


def without(method: Method, names: frozenset[str]) -> Method:
    """The method without some of its keyword-only parameters."""
    given = method.args
    pairs = [
        (argument, default)
        for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
        if argument.arg not in names
    ]
    given.kwonlyargs, given.kw_defaults = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    return method


def returned(method: Method, call: str, *, plain: bool) -> str:
    """The statement that makes a call and turns its result into that of the sync class."""
    kind = ast.unparse(method.returns) if method.returns else "None"
    if kind.startswith("AsyncIterator["):
        return f"return self._thread.each(self._awaited.{call})"
    if not isinstance(method, ast.AsyncFunctionDef):
        name, _, passed = call.partition("(")
        return f"return {sync_names(kind)}(self._thread.call(self._awaited.{name}, {passed}, self._thread)"
    result = f"self._thread.{'ask' if plain else 'run'}(self._awaited.{call})"
    if kind == "None":
        return result
    listed = re.fullmatch(r"list\[(Async\w+)\]", kind)
    if listed:
        return f"return [{sync_names(listed[1])}(found, self._thread) for found in {result}]"
    return f"return {result}"


class Writer:
    """Writes the sync class of one twin."""

    def __init__(self, twin: Twin, module: Module) -> None:
        self._twin = twin
        self._module = module
        self._class = module.class_named(twin.name)
        self._methods = {
            node.name: node
            for node in self._class.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }

    def text(self) -> str:
        twin = self._twin
        body = "\n".join(self._class_lines())
        imports = sorted(set(self._imports(body)))
        path = twin.source.removeprefix("driftq.").replace(".", "/")
        return "\n".join(
            (
                f"# Generated by scripts/sync_client.py from {path}.py; do not edit.",
                f'"""`{twin.sync_name}`: `{twin.name}` for programs without an event loop."""',
                "",
                "from __future__ import annotations",
                "",
                *imports,
                "",
                body,
                "",
            )
        )

    def _class_lines(self) -> Iterator[str]:
        twin = self._twin
        parents = [*twin.parents, *(ast.unparse(parent) for parent in self._class.bases)]
        yield f"class {twin.sync_name}({', '.join(parents)}):"
        yield from indented(self._module.docstring(self._class))
        yield ""
        if twin.slots:
            yield '    __slots__ = ("_awaited", "_thread")\n'
        yield from indented(self._constructor())
        for name, method in self._methods.items():
            if name in DUNDERS:
                yield from indented(self._dunder(method))
            elif not name.startswith("_"):
                yield from indented(self._method(method))

    def _constructor(self) -> Iterator[str]:
        twin = self._twin
        if not twin.opening:
            yield f"def __init__(self, awaited: {twin.name}, thread: LoopThread) -> None:"
            yield from indented((*twin.binding, "self._awaited = awaited", "self._thread = thread"))
            yield ""
            return
        method = without(self._methods["__init__"], LEFT_OUT)
        yield f"def __init__({sync_names(ast.unparse(method.args))}) -> None:"
        yield from indented(self._module.docstring(method))
        yield from indented(line.replace("{arguments}", arguments(method)) for line in twin.opening)
        yield ""
        members = list(self._members(method))
        if members:
            yield f"def _bind(self, awaited: {twin.name}, thread: LoopThread) -> None:"
            yield from indented(("super()._bind(awaited, thread)", *members))
            yield ""

    def _members(self, constructor: Method) -> Iterator[str]:
        """Public attributes of the asyncio object that have a sync class of their own."""
        for node in constructor.body:
            match node:
                case ast.Assign(
                    targets=[ast.Attribute(attr=name)], value=ast.Call(func=ast.Name(id=kind))
                ) if kind in BY_NAME:
                    yield f"self.{name} = {BY_NAME[kind].sync_name}(awaited.{name}, thread)"

    def _method(self, method: Method) -> Iterator[str]:
        kind = sync_names(ast.unparse(method.returns)) if method.returns else "None"
        is_property = any(ast.unparse(decorator) == "property" for decorator in method.decorator_list)
        if is_property:
            yield "@property"
        yield f"def {method.name}({sync_names(ast.unparse(method.args))}) -> {kind}:"
        yield from indented(self._module.docstring(method))
        if is_property:
            yield f"    return self._awaited.{method.name}"
        elif method.name == "close" and self._twin.closing:
            yield from indented(self._twin.closing)
        else:
            plain = self._twin.on_loop.isdisjoint({method.name, *EVERY})
            yield "    " + returned(method, f"{method.name}({arguments(method)})", plain=plain)
        yield ""

    def _dunder(self, method: Method) -> Iterator[str]:
        """These only call methods that the sync class has as well."""
        body = "\n".join(ast.unparse(node) for node in method.body).replace("await ", "")
        kind = ast.unparse(method.returns) if method.returns else "None"
        yield f"def {DUNDERS[method.name]}({ast.unparse(method.args)}) -> {kind}:"
        yield from indented(body.splitlines())
        yield ""

    def _imports(self, body: str) -> Iterator[str]:
        """The statements for every name that the class uses."""
        known = self._module.imports()
        for node in ast.walk(ast.parse(body)):
            if not isinstance(node, ast.Name) or hasattr(builtins, node.id):
                continue
            if node.id == self._twin.sync_name or node.id in ("self", "cls"):
                continue
            if node.id in FROM_ANYWHERE:
                yield f"from {FROM_ANYWHERE[node.id]} import {node.id}"
            elif node.id in known:
                yield known[node.id]


_WRAPPED = re.compile(r"^( *def \w+)\(\n((?: +.+,\n)+) *(\).*:)$", re.MULTILINE)
"""A signature that is longer than the formatter's longest line."""


def _on_one_line(signature: re.Match[str]) -> str:
    parameters = " ".join(line.strip() for line in signature[2].splitlines())
    return f"{signature[1]}({parameters.removesuffix(',')}{signature[3]}"


def indented(lines: Iterator[str] | tuple[str, ...] | list[str]) -> Iterator[str]:
    return (f"    {line}" if line else "" for line in lines)


def formatted(text: str, path: Path) -> str:
    """Formatted with long lines: a signature stands on one line, and nobody edits it here."""
    long = ("--line-length", "320", "--no-force-exclude")
    for step in (("check", "--quiet", "--select", "I", "--fix", *long), ("format", "--quiet", *long)):
        command = [sys.executable, "-m", "ruff", *step, "--stdin-filename", str(path), "-"]
        text = subprocess.run(
            command, input=text, capture_output=True, text=True, check=True, cwd=ROOT
        ).stdout
    return _WRAPPED.sub(_on_one_line, text)


def path_of(module: str) -> Path:
    return SOURCE / (module.replace(".", "/") + ".py")


def written(twin: Twin) -> str:
    """The module of a sync class."""
    module = Module(twin.source, path_of(twin.source).read_text())
    return formatted(Writer(twin, module).text(), path_of(twin.target))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check: bool = parser.parse_args().check
    stale = 0
    for twin in TWINS:
        path, text = path_of(twin.target), written(twin)
        if check and (not path.exists() or path.read_text() != text):
            print(f"{path.relative_to(ROOT)} is stale: run `make sync-client`", file=sys.stderr)
            stale = 1
        elif not check:
            path.write_text(text)
    return stale


if __name__ == "__main__":
    sys.exit(main())
