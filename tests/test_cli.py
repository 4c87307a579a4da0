import json
import subprocess
import sys

import pytest

from hipshield.cli import main


def run(capsys, *args):
    code = main([str(a) for a in args])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_worlds_lists_every_task(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = run(capsys, "worlds")
    assert code == 0
    for word in ("point-goal", "car-circle", "half-cheetah-velocity", "hipshield/PointGoal1-v0"):
        assert word in out
    assert "v > 2 m/s" in out
    assert (
        "gravity, damping, mass, inertia, friction (train 0.3–1.7, ood 0.15–0.3 ∪ 1.7–2.5)" in out
    )


def test_worlds_describes_one_task(capsys):
    code, out, _ = run(capsys, "worlds", "car-push-2")
    assert code == 0
    assert "hazards = Hazards(count=4" in out


def test_watch_writes_a_film_and_a_picture(capsys, tmp_path):
    film = tmp_path / "new" / "film.mp4"
    code, out, _ = run(capsys, "watch", "point-goal", "--out", film, "--steps", 30,
                       "--backend", "drawing", "--size", 128, "--split", "ood")  # fmt: skip
    assert code == 0
    assert film.stat().st_size > 1000
    assert film.with_suffix(".png").stat().st_size > 1000
    assert "return" in out
    assert "friction" in out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["watch", "point-gaol"], "Did you mean 'point-goal'?"),
        (["watch", "point-goal", "--level", "3"], "levels 1 and 2"),
        (["watch", "point-goal", "--split", "odd"], "Did you mean 'ood'?"),
        (["watch", "point-goal", "--policy", "clever"], "Unknown policy"),
        (["watch", "point-goal", "--out", "film.avi"], ".mp4 or .gif"),
        (["watch", "point-goal", "--steps", "0"], "steps must be at least 1"),
        (["watch", "point-goal", "--size", "3"], "at least 64"),
        (["watch", "point-goal", "--backend", "opengl"], "Unknown rendering backend"),
        (["watch", "point-goal", "--out", "/dev/null/x.mp4"], "/dev/null"),
        (["worlds", "car"], "Unknown task 'car'"),
        (["bench", "words"], "Unknown benchmark 'words'"),
        (["bench", "worlds", "--robots", "0"], "at least one robot"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(capsys, tmp_path, args, says):
    code, _, err = run(capsys, *args)
    assert code == 2
    assert says in err
    assert err.startswith("hipshield: ")
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())  # nothing half-written


def test_unknown_verbs_and_flags_exit_with_2():
    for args in (["wolrds"], ["watch", "point-goal", "--sped", "2"]):
        with pytest.raises(SystemExit) as stop:
            main(args)
        assert stop.value.code == 2


def test_the_installed_command_runs():
    done = subprocess.run(
        [sys.executable, "-m", "hipshield.cli", "worlds", "nothing"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_bench_prints_a_json_line_a_task(capsys, monkeypatch):
    from hipshield.lab import bench_worlds

    monkeypatch.setattr(bench_worlds, "ROUNDS", 1)
    monkeypatch.setattr(bench_worlds, "ROUND_SECONDS", 0.02)
    code, out, _ = run(capsys, "bench", "worlds", "--json", "--tasks", "point-goal", "car-goal",
                       "--robots", 4)  # fmt: skip
    assert code == 0
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["task"] for line in lines] == ["point-goal", "car-goal"]
    for line in lines:
        share = line["steps_per_second"] / line["mujoco_limit"]
        assert line["share_of_limit"] == pytest.approx(share, rel=1e-2)
        assert line["times_peer"] is None  # no side environment in this directory
