"""Layouts obey their keep-outs, and are distributed as the recorded ones.

Two-sample Kolmogorov–Smirnov tests compare 2 000 layouts of ours with 2 000 recorded ones: each
coordinate, the heading, and distances between pairs of kinds. The level of 1 % is divided by the
number of tests (Bonferroni), so that a right sampler fails less than once in a hundred seeds;
the seed is fixed anyway.
"""

from dataclasses import replace

import numpy as np
import pytest
from replay import PARITY
from scipy.stats import ks_2samp

from hipshield.errors import LayoutError
from hipshield.worlds.catalogue import TASK_NAMES, find_task
from hipshield.worlds.layout import draw_goal, draw_layout, stack_layouts
from hipshield.worlds.task import Hazards, placements
from hipshield.worlds.world import World

DRAWS = 2000
LAYOUTS = [(t, lv) for t in ("goal", "button", "push", "circle") for lv in (1, 2)]


def ours(task):
    rng = np.random.default_rng(7)
    return stack_layouts([draw_layout(task, rng) for _ in range(DRAWS)])


def recorded(task, level):
    with np.load(PARITY / f"layouts_point_{task}_level{level}.npz", allow_pickle=False) as file:
        return {k: file[k].astype(float) for k in file.files}


def statistics(robot, heading, goal, groups):
    """Named samples that describe the distribution of layouts."""
    samples = {"robot x": robot[:, 0], "robot y": robot[:, 1], "heading": heading}
    things = {"robot": robot[:, None], **{k: v for k, v in groups.items() if v.shape[1]}}
    if goal is not None:
        things["goal"] = goal[:, None]
    for name, places in things.items():
        samples[f"{name} |x|"] = np.abs(places[:, 0, 0])
        samples[f"{name} last y"] = places[:, -1, 1]
    names = sorted(things)
    for i, first in enumerate(names):
        for second in names[i:]:
            gap = np.linalg.norm(things[first][:, :, None] - things[second][:, None], axis=-1)
            if first == second:
                if gap.shape[1] == 1:
                    continue
                gap = gap + 1e9 * np.eye(gap.shape[1])
            samples[f"{first}–{second} nearest"] = gap.min((1, 2))
            samples[f"{first}–{second} first"] = gap[:, 0, -1]
    return samples


def our_statistics(layout, has_goal):
    groups = {k: getattr(layout, k) for k in ("hazards", "buttons", "pillars")}
    if np.abs(layout.box).max() > 0:
        groups["box"] = layout.box[:, None, :2]
    goal = layout.goal if has_goal else None
    samples = statistics(layout.robot[:, :2], layout.robot[:, 2], goal, groups)
    if "box" in groups:
        samples["box turn"] = layout.box[:, 2]
    return samples


def their_statistics(data):
    groups = {k: data[f"{k}_xy"] for k in ("hazards", "buttons", "pillars") if f"{k}_xy" in data}
    if "box_xy" in data:
        groups["box"] = data["box_xy"][:, None]
    samples = statistics(data["agent_xy"], data["agent_rot"], data.get("goal_xy"), groups)
    if "box_rot" in data:
        samples["box turn"] = data["box_rot"]
    return samples


def least_p_value(mine, theirs):
    assert mine.keys() == theirs.keys()
    tests = {k: ks_2samp(mine[k], theirs[k]).pvalue for k in mine}
    return min(tests.values()) * len(tests), tests  # corrected for their number


@pytest.mark.parametrize(("name", "level"), LAYOUTS)
def test_layouts_are_distributed_as_recorded(name, level):
    data = recorded(name, level)
    mine = our_statistics(ours(find_task(f"point-{name}", level)), "goal_xy" in data)
    corrected, tests = least_p_value(mine, their_statistics(data))
    assert corrected > 0.01, sorted(tests.items(), key=lambda kv: kv[1])[:3]


def test_goal_buttons_are_uniform_as_recorded():
    data = recorded("button", 1)
    mine = np.bincount(ours(find_task("point-button")).goal_button.astype(int), minlength=4)
    theirs = np.bincount(data["goal_button"].astype(int), minlength=4)
    # Four standard deviations of a binomial count: 4 sqrt(2000 · 1/4 · 3/4) = 77.
    assert np.abs(mine - DRAWS / 4).max() < 78
    assert np.abs(mine - theirs).max() < 110


def test_the_comparison_notices_a_slightly_wrong_keepout():
    task = find_task("point-goal")
    wrong = replace(task, hazards=replace(task.hazards, keepout=0.22))
    corrected, _ = least_p_value(our_statistics(ours(wrong), True),
                                 their_statistics(recorded("goal", 1)))  # fmt: skip
    assert corrected < 0.01


@pytest.mark.parametrize("name", [n for n in TASK_NAMES if "cheetah" not in n])
def test_keepouts_hold(name):
    task = find_task(name, 2)
    rng = np.random.default_rng(1)
    keepout = {kind: k for kind, k, _ in placements(task)}
    for _ in range(50):
        layout = draw_layout(task, rng)
        placed = [("robot", layout.robot[:2])]
        placed += [("hazard", p) for p in layout.hazards] + [("pillar", p) for p in layout.pillars]
        placed += [("button", p) for p in layout.buttons]
        if "box" in keepout:
            placed.append(("box", layout.box[:2]))
        if "goal" in keepout and "button" not in keepout:
            placed.append(("goal", layout.goal))
        for i, (a, p) in enumerate(placed):
            assert np.abs(p).max() <= max(map(abs, task.extents)) - keepout[a] + 1e-12
            for b, q in placed[:i]:
                assert np.linalg.norm(p - q) >= keepout[a] + keepout[b] - 1e-12


def test_a_new_goal_keeps_away_from_where_everything_is_now():
    task = find_task("car-push", 2)
    rng = np.random.default_rng(0)
    layout = draw_layout(task, rng)
    layout = layout._replace(robot=np.array([0.9, 0.9, 0]), box=np.array([-0.8, 0.7, 0.0]))
    for _ in range(100):
        goal, _ = draw_goal(task, rng, layout)
        assert np.linalg.norm(goal - [0.9, 0.9]) >= 0.8
        assert np.linalg.norm(goal - [-0.8, 0.7]) >= 0.525


def test_a_goal_without_room_goes_where_most_room_is():
    """Moving objects may leave no valid place at all: the episode must go on."""
    task = replace(find_task("point-goal"), extents=(-0.75, -0.75, 0.75, 0.75), hazards=Hazards())
    task = replace(task, objective=replace(task.objective, keepout=0.7))
    layout = draw_layout(replace(task, objective=replace(task.objective, keepout=0.1)),
                         np.random.default_rng(0))  # fmt: skip
    layout = layout._replace(robot=np.zeros(3))
    goal, _ = draw_goal(task, np.random.default_rng(1), layout)
    # Only the square of half-size 0.05 keeps the goal inside; its corners are farthest away.
    assert np.linalg.norm(goal) == pytest.approx(0.05 * np.sqrt(2), abs=5e-3)


def test_an_impossible_layout_says_what_to_change():
    crowded = replace(find_task("point-goal"), hazards=Hazards(count=40, keepout=0.4))
    with pytest.raises(LayoutError, match=r"no room for a hazard.*fewer objects"):
        World(crowded)
