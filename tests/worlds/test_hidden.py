import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hipshield.errors import TaskError
from hipshield.worlds.catalogue import TASK_NAMES, find_task
from hipshield.worlds.hidden import Parameter, make_sampler


def draws(parameters, split, n=2000):
    rng = np.random.default_rng(0)
    sampler = make_sampler(parameters, split)
    return np.array([sampler.draw(rng) for _ in range(n)])


def inside(values, ranges):
    return np.any([(low <= values) & (values <= high) for low, high in ranges], axis=0)


@pytest.mark.parametrize("name", TASK_NAMES)
@pytest.mark.parametrize("split", ["train", "ood", "fixed"])
def test_draws_lie_in_the_split(name, split):
    task = find_task(name)
    values = draws(task.hidden, split, 200)
    for parameter, column in zip(task.hidden, values.T, strict=True):
        assert inside(column, parameter.ranges(split)).all()


def test_published_ranges():
    goal, circle = find_task("point-goal").hidden, find_task("car-circle").hidden
    assert [p.name for p in goal] == ["gravity", "damping", "mass", "inertia", "friction"]
    assert {(p.train, p.ood) for p in goal} == {(((0.3, 1.7),), ((0.15, 0.3), (1.7, 2.5)))}
    assert {p.name: p.ood for p in circle}["damping"] == ((1.7, 2.5),)
    cheetah = find_task("half-cheetah-velocity").hidden
    assert len(cheetah) == 14
    assert {(p.train, p.ood) for p in cheetah} == {(((0.7, 1.3),), ((0.4, 0.7), (1.3, 1.6)))}


def test_each_interval_has_the_same_chance():
    # The share of the lower interval is binomial: n = 2000 draws of 5 parameters, p = 1/2, so
    # four standard deviations are 4 sqrt(0.25 / 10000) = 0.02.
    low = draws(find_task("point-goal").hidden, "ood") < 1
    assert abs(low.mean() - 0.5) < 0.02
    # The choices are independent: no pair of parameters correlates beyond 4 / sqrt(2000).
    correlation = np.corrcoef(low.T)[np.triu_indices(5, 1)]
    assert np.abs(correlation).max() < 0.09


def test_a_users_ranges_replace_all_others():
    values = draws(find_task("point-goal").hidden, {"mass": (2.0, 3.0)}, 50)
    assert (values[:, [0, 1, 3, 4]] == 1).all()
    assert ((values[:, 2] >= 2) & (values[:, 2] <= 3)).all()


@pytest.mark.parametrize(
    ("ranges", "says"),
    [
        ((1.7, 0.3), "reversed: write (0.3, 1.7)"),
        ((-0.5, 1.0), "positive and finite"),
        ((0.0, 1.0), "positive and finite"),
        ((0.5, float("inf")), "positive and finite"),
        ((0.5, float("nan")), "positive and finite"),
        ((0.5,), "(low, high)"),
        ("wide", "numbers"),
    ],
)
def test_bad_ranges_say_what_to_do(ranges, says):
    with pytest.raises(TaskError, match="mass") as error:
        Parameter("mass", train=ranges)
    assert says in str(error.value)
    with pytest.raises(TaskError, match="mass"):
        make_sampler(find_task("point-goal").hidden, {"mass": ranges})


def test_unknown_split_and_parameter_name_the_nearest():
    hidden = find_task("point-goal").hidden
    with pytest.raises(TaskError, match="Did you mean 'train'"):
        make_sampler(hidden, "trian")
    with pytest.raises(TaskError, match="Did you mean 'friction'"):
        make_sampler(hidden, {"fricton": (0.5, 1)})


@given(
    st.lists(
        st.tuples(st.floats(0.01, 10), st.floats(0, 5)).map(lambda t: (t[0], t[0] + t[1])),
        min_size=1,
        max_size=4,
    )
)
def test_any_valid_ranges_are_respected(ranges):
    values = draws((Parameter("mass", train=ranges),), "train", 30)
    assert inside(values[:, 0], ranges).all()
