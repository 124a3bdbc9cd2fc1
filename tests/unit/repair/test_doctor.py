"""The doctor finds what is wrong, says what a repair would cut, cuts that and keeps a copy."""

from pathlib import Path

import pytest

from driftq.housekeeping.round import RoundOptions, run_round
from driftq.log.disk import OsFolder
from driftq.repair.backup import BackupFailed, back_up, bring_back
from driftq.repair.doctor import look_at, repair
from tests.support.story import Story


@pytest.fixture
def story(tmp_path: Path) -> Story:
    made = Story(OsFolder(tmp_path / "data" / "log"))
    made.topic("t")
    for number in range(40):
        made.produce("t", f"{number:03}-" + "x" * 300)
    return made


def flip(path: Path, position: int) -> None:
    octets = bytearray(path.read_bytes())
    octets[position] ^= 1
    path.write_bytes(octets)


@pytest.mark.clause("W4")
def test_a_sound_log_is_called_sound(story: Story) -> None:
    findings = look_at(story.folder, limits=story.limits)  # type: ignore[arg-type]
    assert (findings.damages, findings.messages) == ([], 40)


@pytest.mark.clause("W4")
def test_damage_in_the_middle_is_cut_off_and_a_copy_is_kept(story: Story, tmp_path: Path) -> None:
    story.log.close()
    path = tmp_path / "data" / "log"
    files = sorted(path.glob("*.log"))
    whole = files[1].read_bytes()
    flip(files[1], len(whole) // 2)
    folder = OsFolder(path)
    (damage,) = look_at(folder, limits=story.limits).damages
    assert damage.path == str(files[1])
    assert "whole frames" in damage.repair
    copies = repair(folder, look_at(folder, limits=story.limits), name="doctor-now")
    assert copies is not None
    assert {file.name for file in Path(copies).iterdir()} == {file.name for file in files[1:]}
    folder.close()
    again = Story(OsFolder(path), limits=story.limits)
    values = again.values("t")
    assert values == [f"{number:03}-" + "x" * 300 for number in range(len(values))]
    assert 10 < len(values) < 40
    again.produce("t", "goes on")
    assert look_at(again.folder, limits=story.limits).damages == []  # type: ignore[arg-type]


@pytest.mark.clause("W4")
def test_a_damaged_snapshot_is_set_aside_while_the_segments_are_there(story: Story, tmp_path: Path) -> None:
    options = RoundOptions(small_bytes=0, live_share_min=0.0)
    run_round(story.folder, limits=story.limits, upto=story.log.sealed, options=options)
    values = story.values("t")
    story.log.close()
    path = tmp_path / "data" / "log"
    (snapshot,) = path.glob("*.snapshot")
    flip(snapshot, 200)
    folder = OsFolder(path)
    findings = look_at(folder, limits=story.limits)
    assert "set the snapshot aside" in findings.damages[0].repair
    repair(folder, findings, name="doctor-now")
    folder.close()
    assert Story(OsFolder(path), limits=story.limits).values("t") == values


@pytest.mark.clause("W4")
def test_a_damaged_message_in_a_sealed_file_is_found(story: Story, tmp_path: Path) -> None:
    options = RoundOptions(small_bytes=0, live_share_min=0.0)
    run_round(story.folder, limits=story.limits, upto=story.log.sealed, options=options)
    first = tmp_path / "data" / "log" / "00000000000000000001.log"
    flip(first, first.read_bytes().index(b"003-xxx") + 50)
    (damage,) = look_at(story.folder, limits=story.limits).damages  # type: ignore[arg-type]
    assert (damage.path, damage.repair) == (str(first), "")


@pytest.mark.clause("W6")
def test_a_backup_of_a_log_in_use_is_whole_and_comes_back(story: Story, tmp_path: Path) -> None:
    run_round(story.folder, limits=story.limits, upto=story.log.sealed - 1)
    made = back_up(str(tmp_path / "data"), str(tmp_path / "copy"), limits=story.limits)
    assert made.findings.messages == 40
    story.produce("t", "after the backup")
    bring_back(str(tmp_path / "copy"), str(tmp_path / "again"), limits=story.limits)
    again = Story(OsFolder(tmp_path / "again" / "log"), limits=story.limits)
    assert len(again.values("t")) == 40
    again.produce("t", "another life")
    assert story.values("t")[-1] == "after the backup"
    with pytest.raises(BackupFailed, match="not empty"):
        back_up(str(tmp_path / "data"), str(tmp_path / "copy"), limits=story.limits)
