"""`driftq doctor`, `driftq backup` and `driftq restore`: verify, repair and copy the files of a server."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from driftq.cli.screen import Json, examples, say, say_aside, say_error, say_json
from driftq.errors import LogError, LogLocked
from driftq.pipeline.spark.java import Means, find_means
from driftq.settings import load_settings

if TYPE_CHECKING:
    from driftq.log.disk import OsFolder
    from driftq.model.options.limits import Limits
    from driftq.repair.backup import Backup
    from driftq.repair.doctor import Findings

DOCTOR_EXAMPLES = examples("driftq doctor", "driftq doctor ./driftq-data --json")
BACKUP_EXAMPLES = examples("driftq backup ./driftq-data ./monday")
RESTORE_EXAMPLES = examples("driftq restore ./monday ./driftq-data-again")

Folder = Annotated[
    str | None,
    typer.Argument(metavar="[DIR]", help="The server's folder (else DRIFTQ_DATA, else ./driftq-data)."),
]
Data = Annotated[str, typer.Argument(metavar="DIR", help="The server's folder.")]


def doctor(
    folder: Folder = None,
    mend: Annotated[
        bool, typer.Option("--repair", help="Repair what the findings list; a copy of removed bytes is kept.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Verify every file of a server. Shows what a repair would remove, and whether the pipeline can run."""
    from driftq.log.disk import OsFolder
    from driftq.repair.doctor import repair

    settings = load_settings()
    path = _log_in(folder or settings.data)
    opened = OsFolder(path)
    try:
        findings = _examine(opened, settings.limits, mend=mend)
        means = find_means()
        if as_json:
            ahead_ms = _ahead_ms(findings)
            say_json({**asdict(findings), "clock_ahead_ms": ahead_ms, "pipeline": _pipeline(means)})
        else:
            _print_findings(findings, path)
            _print_clock(findings)
            _print_pipeline(means)
        if not findings.damages:
            return
        if not mend:
            say_aside(f"nothing was changed; to repair: driftq doctor --repair {folder or settings.data}")
            raise typer.Exit(1)
        copies = repair(opened, findings, name=time.strftime("doctor-%Y%m%dT%H%M%S", time.gmtime()))
        if copies is None:
            say_error("doctor cannot repair this; restore the folder from a backup")
            raise typer.Exit(1)
        say(f"repaired; the removed bytes are in {copies}")
    finally:
        opened.close()


def _pipeline(means: Means) -> dict[str, str | int | None]:
    problem = means.problem
    return {
        "spark": means.spark,
        "java": means.java.release if means.java else None,
        "problem": str(problem) if problem else None,
    }


def _ahead_ms(findings: Findings) -> int:
    """How far the log is ahead of this machine's clock; 0 up to a minute."""
    from driftq.server.clock import STEP_MS

    ahead = findings.last_at - time.time_ns() // 1_000_000
    return ahead if ahead > STEP_MS else 0


def _print_clock(findings: Findings) -> None:
    """A log that is ahead of the clock is sound, but the clock may be wrong."""
    from driftq.server.clock import log_ahead_text

    ahead_ms = _ahead_ms(findings)
    if ahead_ms:
        say_error(log_ahead_text(ahead_ms))


def _print_pipeline(means: Means) -> None:
    """Whether the pipeline can run; everything else works without Spark."""
    if means.problem is not None:
        say(f"the pipeline cannot run here: {means.problem}")
    elif means.java is not None:
        say(f"the pipeline can run: Spark {means.spark}, Java {means.java.release} ({means.java.path})")


def _examine(opened: OsFolder, limits: Limits, *, mend: bool) -> Findings:
    from driftq.repair.doctor import look_at

    try:
        opened.lock()
    except LogLocked as locked:
        if mend:
            say_error(f"{locked}; stop it before a repair")
            raise typer.Exit(1) from None
        say_aside("a server is running: doctor does not check what it writes meanwhile")
    try:
        return look_at(opened, limits=limits)
    except LogError as refused:
        say_error(str(refused))
        raise typer.Exit(1) from None


def backup(
    folder: Data,
    target: Annotated[str, typer.Argument(metavar="TO", help="A new folder for the copy.")],
) -> None:
    """Copy a server's folder; the server may be running."""
    from driftq.repair.backup import back_up

    _copied(lambda: back_up(folder, target, limits=load_settings().limits), target)


def restore(
    source: Annotated[str, typer.Argument(metavar="FROM", help="The folder of a backup.")],
    folder: Data,
) -> None:
    """Make a server's folder from a backup. The folder must not exist or be empty."""
    from driftq.repair.backup import bring_back

    _copied(lambda: bring_back(source, folder, limits=load_settings().limits), folder)


def _copied(work: Callable[[], Backup], target: str) -> None:
    try:
        made = work()
    except (LogError, OSError) as refused:
        say_error(str(refused))
        raise typer.Exit(1) from None
    say(
        f"{target}: {_files(made.files)}, {made.bytes:,} bytes, {made.findings.messages:,} messages, verified"
    )


def _log_in(folder: str) -> str:
    """The log in a server's folder, or the folder itself if it is a log; otherwise exits with code 1."""
    from driftq.log.manifest import MANIFEST
    from driftq.log.segment import segment_numbers

    if not os.path.isdir(folder):
        say_error(f"{folder} is not a folder" if os.path.exists(folder) else f"there is no folder {folder}")
        raise typer.Exit(1)
    inside = os.path.join(folder, "log")
    path = inside if os.path.isdir(inside) else folder
    names = os.listdir(path)
    if MANIFEST not in names and not segment_numbers(names):
        say_error(f"{folder} is not the folder of a server: there is no log in it")
        raise typer.Exit(1)
    return path


def _print_findings(findings: Findings, path: str) -> None:
    for damage in findings.damages:
        say(f"{damage.path}, byte {damage.position}: {damage.problem}")
        say(f"  a repair would {damage.repair}" if damage.repair else "  cannot be repaired")
    torn = findings.torn
    if torn is not None:
        say(f"{torn.file}: {torn.bytes} bytes of an unfinished write; the next start removes them")
    if not findings.damages:
        say(f"{path} is sound: {findings.messages:,} messages kept in {_files(findings.files)}")


def _files(count: int) -> str:
    return f"{count} file{'s' if count != 1 else ''}"
