"""Pictures show what is where: positions of pixels follow positions in the world."""

import numpy as np
import pytest

from hipshield.errors import HipshieldError, NotResetError
from hipshield.worlds.catalogue import find_task
from hipshield.worlds.seeing.drawing import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    VERMILLION,
    Path,
    Ring,
    Status,
    draw,
    draw_trajectory,
)
from hipshield.worlds.world import World

# A 480 × 480 picture of a task with extents ±1.5 m shows ±2 m on 456 rows above the text.
SCALE, ACROSS, DOWN = 114, 240, 228


@pytest.fixture(scope="module")
def worlds():
    made = {}

    def get(name, seed=0, **settings):
        key = name, str(settings)
        if key not in made:
            made[key] = World(find_task(name), threads=1, **settings)
        made[key].reset(seed=seed)
        return made[key]

    return get


def put(world, x, y, yaw=0.0):
    """Set a car down somewhere."""
    qpos = world.physics.state["qpos"]
    qpos[0, :2], qpos[0, 3:7] = (x, y), (np.cos(yaw / 2), 0, 0, np.sin(yaw / 2))
    world.physics.forward(np.arange(1))


def clear(world):
    """Move hazards and goal into a corner, out of the way."""
    world.layout.hazards[:] = -1.3
    world.layout.goal[:] = -1.3


def where(picture, colour, tolerance=12):
    """Mean place (column, row) of the pixels of a colour above the text strip, and their number."""
    rows = picture[: round(0.95 * len(picture))].astype(int)
    y, x = np.nonzero(np.abs(rows - colour[:3]).max(-1) <= tolerance)
    return np.array([x.mean(), y.mean()]) if len(x) else None, len(x)


def pixel(x, y):
    return np.array([ACROSS + SCALE * x, DOWN - SCALE * y])


@pytest.mark.parametrize("place", [(0.0, 0.0), (0.9, -0.4), (-1.2, 1.1)])
def test_the_robot_is_drawn_where_it_is(worlds, place):
    world = worlds("car-goal")
    clear(world)
    put(world, *place)
    centre, _ = where(draw(world), BLUE)
    assert np.abs(centre - pixel(*place)).max() < 4


@pytest.mark.parametrize("yaw", [0.0, 1.0, 2.5, -2.0])
def test_the_cars_arrow_lies_to_its_front_which_is_minus_y(worlds, yaw):
    world = worlds("car-goal")
    clear(world)
    put(world, 0.3, 0.2, yaw)
    arrow, count = where(draw(world), (255, 255, 255), 1)
    front = np.array([np.sin(yaw), np.cos(yaw)])  # −y turned by yaw, rows count downwards
    assert count > 5
    assert (arrow - pixel(0.3, 0.2)) @ front > 3


def test_the_points_nose_lies_to_its_front_which_is_plus_x(worlds):
    world = worlds("point-goal", seed=5)
    clear(world)
    view = world.view()
    front = view.rotation[0, :2, 0] * (1, -1)
    body, _ = where(draw(world), BLUE)
    assert (body - pixel(*view.position[0, :2])) @ front > 1


def test_a_hazard_is_a_tinted_disc_of_its_radius(worlds):
    world = worlds("car-goal")
    clear(world)
    put(world, -1, 1)
    world.layout.hazards[0, 0] = 0.5, -0.7
    picture = draw(world).astype(int)
    for angle in np.arange(0, 6.28, 0.7):
        out = 0.2 * np.array([np.cos(angle), np.sin(angle)])
        (x0, y0), (x1, y1) = (
            np.round(pixel(0.5 + f * out[0], -0.7 + f * out[1])).astype(int) for f in (0.85, 1.15)
        )
        assert picture[y0, x0, 0] - picture[y0, x0, 2] > 40, "inside: tinted orange"
        assert np.ptp(picture[y1, x1]) < 12, "outside: floor"


def test_the_goal_ring_and_the_box_are_where_they_are(worlds):
    world = worlds("car-push")
    world.layout.goal[:] = 0.6, 0.9
    world.layout.hazards[:], world.layout.pillars[:] = -1.3, -1.3
    put(world, 1.4, -1.4)
    at = world.physics.model.joint("push_box").qposadr[0]
    state = world.physics.state["qpos"]
    state[0, at : at + 2] = -0.5, 0.4
    state[0, at + 3 : at + 7] = 1, 0, 0, 0
    world.physics.forward(np.arange(1))
    straight = draw(world)
    assert np.abs(where(straight, GREEN)[0] - pixel(0.6, 0.9)).max() < 3
    assert np.abs(where(straight, ORANGE)[0] - pixel(-0.5, 0.4)).max() < 3
    corner = np.round(pixel(-0.5 + 0.09, 0.4 + 0.09)).astype(int)
    assert tuple(straight[corner[1], corner[0]]) == ORANGE
    state[0, at + 3 : at + 7] = np.cos(np.pi / 8), 0, 0, np.sin(np.pi / 8)  # turned by 45°
    world.physics.forward(np.arange(1))
    turned = draw(world)
    side = np.round(pixel(-0.5 + 0.15, 0.4)).astype(int)
    assert tuple(turned[side[1], side[0]]) == ORANGE != tuple(straight[side[1], side[0]])


def test_the_outline_warns_exactly_while_the_margin_is_not_positive(worlds):
    world = worlds("car-goal")
    clear(world)
    world.layout.hazards[0, 0] = 0.5, 0.5
    for distance, warns in ((0.19, True), (0.21, False)):
        put(world, 0.5, 0.5 - distance)
        x, y = np.round(pixel(0.5, 0.5 - distance)).astype(int)
        assert (where(draw(world)[y - 25 : y + 25, x - 25 : x + 25], VERMILLION)[1] > 60) == warns


def test_buttons_fade_while_the_robot_cannot_see_them(worlds, monkeypatch):
    world = worlds("point-button")
    world.layout.hazards[:] = -1.3
    others = where(draw(world), PURPLE)[1]
    goal, _ = where(draw(world), GREEN)
    assert others > 100
    assert np.abs(goal - pixel(*world.layout.goal[0])).max() < 5
    blind = world.view()._replace(timer=np.array([3]))
    monkeypatch.setattr(world, "view", lambda: blind)
    assert where(draw(world), PURPLE)[1] == where(draw(world), GREEN)[1] == 0


def test_the_unsafe_side_of_a_wall_is_tinted(worlds):
    world = worlds("car-circle")
    put(world, 0, 0)
    picture, scale = draw(world).astype(int), 456 / 4
    for x, unsafe in ((1.05, False), (1.25, True), (-1.05, False), (-1.25, True)):
        red, _, blue = picture[round(228 - 0.3 * scale), round(240 + x * scale)]
        assert (red - blue > 20) == unsafe


def test_a_robot_that_leaves_stays_visible_and_far_away_is_pointed_to(worlds):
    world = worlds("car-goal")
    clear(world)
    put(world, 3.3, 0.0)
    nearby, _ = where(draw(world), BLUE)
    assert nearby[0] > 330
    put(world, 0.0, 30.0)
    arrow, count = where(draw(world), BLUE)
    assert count > 20
    assert arrow[1] < 40
    assert abs(arrow[0] - ACROSS) < 4


def test_overlays_change_pixels_only_where_they_are(worlds):
    world = worlds("car-goal")
    clear(world)
    plain = draw(world)

    def changed(*overlays):
        rows, columns = np.nonzero((draw(world, overlays=overlays) != plain).any(-1))
        return np.stack([columns, rows], 1)

    ring = changed(Ring(np.array([0.8, 0.8]), 0.3))
    distance = np.linalg.norm(ring - pixel(0.8, 0.8), axis=1) / SCALE
    assert len(ring) > 1000
    assert distance.max() < 0.3 + 0.03
    path = changed(Path(np.array([[-0.5, 1.2], [0.5, 1.2]]), VERMILLION, 4))
    assert np.abs(path[:, 1] - pixel(0, 1.2)[1]).max() <= 3
    assert np.ptp(path[:, 0]) == pytest.approx(SCALE, abs=4)
    faint = changed(Path(np.array([[-0.5, 1.2], [0.5, 1.2]]), (*VERMILLION, 100), 4))
    assert (faint.min(0) == path.min(0)).all()
    assert (faint.max(0) == path.max(0)).all()
    badge = changed(Status("held back", GREEN))
    assert badge.max(0)[0] < 240
    assert badge.max(0)[1] < 60
    assert len(changed()) == 0, "nothing of the overlays stays on the kept background"


def test_a_translucent_path_is_equally_strong_where_it_crosses_itself(worlds):
    world = worlds("car-goal")
    clear(world)
    put(world, -1, -1)
    cross = np.array([[0.2, 0.7], [1.2, 0.7], [0.7, 0.7], [0.7, 0.2], [0.7, 1.2]])
    picture = draw(world, overlays=[Path(cross, (0, 0, 0, 128), 6)])
    x, y = np.round(pixel(0.7, 0.7)).astype(int)
    assert np.abs(picture[y, x].astype(int) - picture[y, x + 30]).max() <= 2


def test_size_is_width_and_height(worlds):
    world = worlds("car-goal")
    assert draw(world, size=(320, 200)).shape == (200, 320, 3)
    assert draw(world).dtype == np.uint8
    for size in ((20, 480), (480,), (100.5, 200)):
        with pytest.raises(HipshieldError, match="size"):
            draw(world, size=size)
    with pytest.raises(HipshieldError, match="numbered 0 to 0"):
        draw(world, robot=1)


def test_each_robot_of_a_batch_gets_its_own_picture(worlds):
    world = worlds("car-goal", robots=2)
    world.layout.hazards[:], world.layout.goal[:] = -1.3, -1.3
    for robot in (0, 1):
        centre, _ = where(draw(world, robot), BLUE)
        assert np.abs(centre - pixel(*world.view().position[robot, :2])).max() < 4


def test_each_robot_of_a_batch_gets_its_own_box(worlds):
    world = worlds("car-push", robots=2)
    world.layout.hazards[:], world.layout.goal[:] = -1.3, -1.3
    assert np.abs(np.diff(world.view().box, axis=0)).max() > 0.2, "they differ"
    for robot in (0, 1):
        centre, _ = where(draw(world, robot), ORANGE)
        assert np.abs(centre - pixel(*world.view().box[robot, :2])).max() < 8


def test_the_caption_is_written_and_cut_to_fit(worlds):
    world = worlds("car-goal")
    strip = [draw(world, caption=c)[460:] for c in ("", "short", "long " * 100)]
    assert (strip[0] != strip[1]).any()
    clock = np.s_[:, -100:]  # time and margin stay readable
    assert (strip[0][clock] == strip[2][clock]).all()


def test_a_world_has_to_be_reset_before_it_is_drawn():
    with pytest.raises(NotResetError):
        draw(World(find_task("car-circle"), threads=1))


def test_a_trajectory_marks_its_ends_and_its_cost(worlds):
    world = worlds("car-goal")
    clear(world)
    route = np.stack([np.linspace(-1, 1, 200), np.full(200, 0.5)], 1)
    costs = np.zeros(200)
    free = draw_trajectory(world, route, costs)
    costs[150:160] = 1
    paid = draw_trajectory(world, route, costs)
    scale = 760 / 4
    centre = np.argwhere((free != paid).any(-1) & (np.arange(800)[:, None] < 750)).mean(0)
    assert centre[::-1] == pytest.approx((400 + scale * route[155, 0], 380 - scale * 0.5), abs=3)
    brightness = [
        free[round(380 - scale * 0.5), round(400 + scale * x)].astype(int).sum()
        for x in (-0.9, 0.0, 0.9)
    ]
    assert brightness[0] > brightness[1] + 50 > brightness[2] + 100, "from light to dark"


def test_a_trajectory_far_outside_is_shown_whole(worlds):
    world = worlds("car-goal")
    clear(world)
    route = np.stack([np.linspace(0, 25, 50), np.zeros(50)], 1)
    end, _ = where(draw_trajectory(world, route, np.ones(50)), VERMILLION)
    assert end[0] > 400


def test_wrong_trajectories_are_refused(worlds):
    world = worlds("car-goal")
    for positions, costs in (
        (np.zeros((5, 2)), np.zeros(4)),
        (np.zeros((0, 2)), np.zeros(0)),
        (np.zeros((5, 1)), np.zeros(5)),
        (np.full((5, 2), np.nan), np.zeros(5)),
    ):
        with pytest.raises(HipshieldError, match="trajectory"):
            draw_trajectory(world, positions, costs)


LONG = {"torso_length": (1.3, 1.3)}
SHORT = {"torso_length": (0.7, 0.7)}
TORSO = (0, 84, 138)


def test_the_half_cheetahs_own_lengths_show(worlds):
    widths = []
    for split in (SHORT, LONG):
        world = worlds("half-cheetah-velocity", split=split)
        world.physics.state["qpos"][:] = 0
        _, columns = np.nonzero((np.abs(draw(world).astype(int) - TORSO) < 8).all(-1))
        widths.append(np.ptp(columns) * 2.8 / 480)  # the picture is 2.8 m wide
    assert widths[1] - widths[0] == pytest.approx(0.6, abs=0.04)


def test_the_camera_follows_the_half_cheetah(worlds):
    world = worlds("half-cheetah-velocity", split=LONG)
    here = draw(world)
    world.physics.state["qpos"][0, 0] += 20.3
    there = draw(world)
    assert where(here, TORSO)[0] == pytest.approx(where(there, TORSO)[0], abs=1.5)
    assert (here[330:460] != there[330:460]).any(), "the ground scrolls"


def test_the_gauge_and_the_outline_tell_of_too_high_a_velocity(worlds, monkeypatch):
    world = worlds("half-cheetah-velocity", split=LONG)
    view, pictures = world.view(), []
    for velocity in (1.99, 2.01):
        now = view._replace(velocity=np.array([velocity]))
        monkeypatch.setattr(world, "view", lambda now=now: now)
        pictures.append(draw(world))
    assert where(pictures[0], VERMILLION)[1] == 0
    assert where(pictures[1], VERMILLION)[1] > 300


def test_the_half_cheetahs_trajectory_is_a_chart_of_its_velocity(worlds):
    world = worlds("half-cheetah-velocity", split=LONG)
    velocity = np.concatenate([np.ones(50), np.full(50, 3.0)])
    chart = draw_trajectory(world, velocity[:, None], velocity >= 2.0)
    slow, fast = (where(chart[:, half], BLUE)[0] for half in (np.s_[80:380], np.s_[460:760]))
    assert fast is None or fast[1] < slow[1] - 100
    marks, _ = where(chart[:, 460:760], VERMILLION)
    assert marks[1] < slow[1] - 100
    with pytest.raises(HipshieldError, match="trajectory"):
        draw_trajectory(world, velocity[:, None], velocity[:-1])
