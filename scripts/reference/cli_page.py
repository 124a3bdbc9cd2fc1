"""docs/reference/cli.md: every command with its arguments and options, from the typer application."""

import re
from collections.abc import Iterator
from typing import Any

import typer

from scripts.reference.markdown import anchor, code, head, joined, table

PROGRAM = "driftq"
INTRO = """\
Results go to stdout, everything else to stderr; `--json` prints JSON where a command has it. The
exit code is 0 after success, 1 after a refusal or a failure, 2 for a command line that cannot be
understood and 130 after Ctrl-C. Commands that talk to a server find it by `--url`, else by
[`DRIFTQ_URL`](settings.md).

`driftq --install-completion` adds completion of commands and options to your shell (bash, zsh, fish,
PowerShell); `driftq --show-completion` prints it, for other places to install it."""


def page() -> str:
    from driftq.cli.app import app

    commands = list(_commands(typer.main.get_command(app), PROGRAM))
    rows = [(f"[`{name}`](#{anchor(name)})", _summary(command)) for name, command in commands]
    parts = [*head("Command line", "src/driftq/cli"), INTRO, table(("Command", "Purpose"), rows)]
    for name, command in commands:
        parts += _section(name, command)
    return joined(parts)


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every command below this one; a group is only the way to its commands."""
    for word, below in command.commands.items():
        if getattr(below, "hidden", False):
            continue
        if hasattr(below, "commands"):
            yield from _commands(below, f"{name} {word}")
        else:
            yield f"{name} {word}", below


def _summary(command: Any) -> str:
    return " ".join((command.help or "").split("\n\n")[0].split())


def _section(name: str, command: Any) -> Iterator[str]:
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [
        param
        for param in command.params
        if param.param_type_name == "option" and not getattr(param, "hidden", False)
    ]
    words = [name, *(["[OPTIONS]"] if options else []), *map(_usage, arguments)]
    yield f"## {name}"
    yield " ".join((command.help or "").split())
    yield f"```text\n{' '.join(words)}\n```"
    if arguments:
        rows = [(code(_metavar(one)), _default(one), getattr(one, "help", None) or "") for one in arguments]
        yield table(("Argument", "Default", "Meaning"), rows)
    if options:
        option_rows = [(_spelling(one), _default(one), one.help or "") for one in options]
        yield table(("Option", "Default", "Meaning"), option_rows)
    examples = [line.strip() for line in (command.epilog or "").replace("\b", "").splitlines()]
    if shown := [line for line in examples if line and not line.startswith("Example")]:
        yield "Examples:\n\n```text\n" + "\n".join(shown) + "\n```"


def _usage(argument: Any) -> str:
    shown = _metavar(argument) + ("…" if argument.nargs == -1 and "…" not in _metavar(argument) else "")
    return shown if argument.required else f"[{shown}]"


def _metavar(param: Any) -> str:
    return str(param.metavar or param.name.upper()).strip("[]")


def _spelling(option: Any) -> str:
    names = ", ".join(code(name) for name in (*option.opts, *option.secondary_opts))
    if option.is_flag or option.count:
        return names
    return f"{names} {code(option.metavar or _type(option))}"


def _type(option: Any) -> str:
    kind = option.type
    if choices := getattr(kind, "choices", None):
        return "|".join(str(getattr(choice, "value", choice)) for choice in choices)
    return re.sub(r" RANGE$", "", kind.name.upper().replace("_", " "))


def _default(param: Any) -> str:
    if param.required:
        return "required"
    if param.multiple or param.nargs == -1 or param.default in (None, "") or callable(param.default):
        return ""
    if getattr(param, "is_flag", False):
        return "on" if param.default else "off"
    return code(param.default)
