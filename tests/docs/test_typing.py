"""Type checkers understand the public names as a user sees them: right passes, wrong is found."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GOOD = ROOT / "tests/docs/typing/user_program.py"
BAD = ROOT / "tests/docs/typing/mistaken_program.txt"  # No program of ours: it must not pass our own checks.
MISTAKES = [
    number for number, line in enumerate(BAD.read_text().splitlines(), start=1) if "# mistake" in line
]


def mypy(file: Path, tmp_path: Path) -> list[int]:
    """The lines with errors, by mypy in strict mode and without the project's own settings."""
    settings = tmp_path / "mypy.ini"
    settings.write_text(
        f"[mypy]\nstrict = True\nmypy_path = {ROOT / 'src'}\n[mypy-driftq.*]\nfollow_imports = silent\n"
    )
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        str(settings),
        "--cache-dir",
        str(tmp_path / "cache"),
    ]
    ran = subprocess.run([*command, str(file)], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    return sorted({int(line.split(":")[1]) for line in ran.stdout.splitlines() if ": error:" in line})


def pyright(file: Path, tmp_path: Path) -> list[int]:
    """The same by pyright in strict mode."""
    settings = {
        "include": [str(file)],
        "typeCheckingMode": "strict",
        "extraPaths": [str(ROOT / "src")],
        "pythonVersion": "3.11",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    ran = subprocess.run(
        [*command, "--project", str(tmp_path)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert ran.returncode in (0, 1), ran.stdout + ran.stderr
    found = json.loads(ran.stdout)["generalDiagnostics"]
    return sorted({one["range"]["start"]["line"] + 1 for one in found if one["severity"] == "error"})


@pytest.mark.parametrize("check", [mypy, pyright])
def test_a_right_program_passes_and_mistakes_are_found(check, tmp_path: Path) -> None:
    assert check(GOOD, tmp_path) == []
    bad = tmp_path / "mistaken_program.py"
    bad.write_text(BAD.read_text())
    assert check(bad, tmp_path) == MISTAKES
