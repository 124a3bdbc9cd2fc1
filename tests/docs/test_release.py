"""A release is refused unless the tree is clean, the version new and the changelog written."""

import subprocess
from pathlib import Path

import pytest

from scripts import release

CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2030-01-01\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that is ready; building it is left out."""
    for name, value in (("NAME", "Ada"), ("EMAIL", "ada@example.org")):
        monkeypatch.setenv(f"GIT_AUTHOR_{name}", value)
        monkeypatch.setenv(f"GIT_COMMITTER_{name}", value)
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    release.git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    monkeypatch.setattr(release, "build", lambda root: None)
    return tmp_path


def commit(project: Path) -> None:
    release.git(project, "add", "--all")
    release.git(project, "commit", "--quiet", "--message", "Change")


def tags(project: Path) -> list[str]:
    return release.git(project, "tag", "--list").split()


def test_without_a_flag_nothing_is_tagged(project: Path) -> None:
    assert release.main([], root=project) == 0
    assert tags(project) == []


def test_the_flag_tags_the_commit_and_a_second_time_is_refused(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert release.main(["--tag"], root=project) == 0
    assert tags(project) == ["v1.2.3"]
    assert release.main(["--tag"], root=project) == 1
    assert "v1.2.3 is tagged already" in capsys.readouterr().err


def test_a_dirty_tree_is_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "new.txt").write_text("x")
    assert release.main(["--tag"], root=project) == 1
    assert "?? new.txt" in capsys.readouterr().err
    assert tags(project) == []


def test_a_build_that_changes_the_tree_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "build", lambda root: (root / "left.txt").write_text("x"))
    assert release.main(["--tag"], root=project) == 1
    assert tags(project) == []


def test_a_failed_check_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(root: Path) -> None:
        raise subprocess.CalledProcessError(2, ["make", "check"])

    monkeypatch.setattr(release, "build", fail)
    assert release.main(["--tag"], root=project) == 1
    assert tags(project) == []


def test_a_version_without_a_dated_section_is_refused(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n## 1.2.3\n")
    commit(project)
    assert release.main([], root=project) == 1
    assert "no section '## [1.2.3]" in capsys.readouterr().err
