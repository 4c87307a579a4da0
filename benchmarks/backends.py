"""Which way to step many MuJoCo models: `mujoco.batch`, `mujoco.rollout`, or `mjbatch`.

    python benchmarks/backends.py                          # this environment's MuJoCo
    python benchmarks/backends.py --export models          # write the models for the next line
    other/bin/python benchmarks/backends.py --models models  # e.g. one that has mjbatch

Each way does what the worlds need in a step: ten physics steps with one control, a friction and
mass of each robot's own, and the sensors of the new state (`mj_forward`). `mujoco.rollout` has no
forward pass at the end, so an eleventh step is simulated for its sensors; and it forgets the
solver's warm start between calls, so that is estimated from the last two velocities. The limit is
`mj_step` on all cores, ten steps a call, without the forward pass. Rounds alternate; medians.
"""

import argparse
import importlib.util
import threading
import time
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np

ROBOTS, SUBSTEPS, ROUNDS, SECONDS = 128, 10, 7, 0.4
XML = ""  # of the model being measured
Stepper = Callable[[np.ndarray], object]


def exported(folder: Path) -> None:
    """Write the worlds' models as files that other MuJoCo versions can read."""
    from hipshield.worlds.catalogue import find_task
    from hipshield.worlds.physics import machine_of

    folder.mkdir(parents=True, exist_ok=True)
    for name in ("point-goal", "car-goal"):
        task = find_task(name)
        spec = machine_of(task).spec(task)
        spec.compile()
        (folder / f"{name}.xml").write_text(spec.to_xml())


def make_limit(model: mujoco.MjModel, threads: int) -> Stepper:
    """`mj_step` alone on every core."""
    data = [mujoco.MjData(model) for _ in range(ROBOTS)]
    parts = np.array_split(np.arange(ROBOTS), threads)

    def work(part: np.ndarray, actions: np.ndarray) -> None:
        for i in part:
            data[i].ctrl[:] = actions[i]
            mujoco.mj_step(model, data[i], SUBSTEPS)

    def step(actions: np.ndarray) -> None:
        pool = [threading.Thread(target=work, args=(part, actions)) for part in parts]
        for thread in pool:
            thread.start()
        for thread in pool:
            thread.join()

    return step


def make_rollout(model: mujoco.MjModel, threads: int) -> Stepper:
    """`mujoco.rollout`, with a model for each robot."""
    from mujoco import rollout

    pool = rollout.Rollout(nthread=threads)
    models = [mujoco.MjModel.from_xml_string(XML) for _ in range(ROBOTS)]
    data = [mujoco.MjData(model) for _ in range(threads)]
    kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
    size = mujoco.mj_stateSize(model, kind)
    state, start = np.empty((ROBOTS, SUBSTEPS + 1, size)), np.empty(size)
    mujoco.mj_getState(model, mujoco.MjData(model), start, kind)
    memory = {"state": np.tile(start, (ROBOTS, 1)), "warm": np.zeros((ROBOTS, model.nv))}
    sensors = np.empty((ROBOTS, SUBSTEPS + 1, model.nsensordata))

    def step(actions: np.ndarray) -> None:
        control = np.repeat(actions[:, None], SUBSTEPS + 1, axis=1)
        pool.rollout(
            models, data, memory["state"], control, skip_checks=True, nstep=SUBSTEPS + 1,
            initial_warmstart=memory["warm"], state=state, sensordata=sensors,
        )  # fmt: skip
        memory["state"] = state[:, -2].copy()
        change = state[:, -1, -model.nv :] - state[:, -2, -model.nv :]
        memory["warm"] = change / model.opt.timestep

    return step


def make_batch(model: mujoco.MjModel, threads: int) -> Stepper:
    """`mujoco.batch`: per-robot fields, warm start and forward pass are its own."""
    from mujoco.batch import Batch

    batch = Batch(model, ROBOTS, threads)
    for field in ("geom_friction", "body_mass", "body_inertia", "dof_damping", "body_pos"):
        batch.expand(field)
    batch.set_const()
    batch.bind("sensordata")
    control, forward = batch.bind("ctrl"), int(mujoco.mjtStage.mjSTAGE_ACC)
    batch.reset()

    def step(actions: np.ndarray) -> None:
        control[:] = actions
        batch.step(nstep=SUBSTEPS, stage=forward)

    return step


def make_mjbatch(model: mujoco.MjModel, threads: int) -> Stepper:
    """`mjbatch`, the package that `mujoco.batch` grew out of; it pins one MuJoCo version."""
    import mjbatch

    batch = mjbatch.Batch(model, ROBOTS, threads)
    for field in ("geom_friction", "body_mass", "body_inertia", "dof_damping", "body_pos"):
        batch.expand(field)
    batch.set_const()
    batch.bind("sensordata")
    control = batch.bind("ctrl")

    def step(actions: np.ndarray) -> None:
        control[:] = actions
        batch.step(nstep=SUBSTEPS)
        batch.forward()

    return step


def ways() -> dict[str, Callable[[mujoco.MjModel, int], Stepper]]:
    """Return the ways that this environment has."""
    found = {"limit": make_limit, "mujoco.rollout": make_rollout}
    if importlib.util.find_spec("mujoco.batch"):
        found["mujoco.batch"] = make_batch
    if importlib.util.find_spec("mjbatch"):
        found["mjbatch"] = make_mjbatch
    return found


def main() -> None:
    """Measure and print one line a model."""
    global XML
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--export", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if args.export or not args.models.exists():
        exported(args.export or args.models)
    rng = np.random.default_rng(0)
    for path in sorted((args.export or args.models).glob("*.xml")):
        XML = path.read_text()
        try:
            model = mujoco.MjModel.from_xml_string(XML)
        except ValueError as error:  # an older MuJoCo may not know a newer one's attributes
            print(f"MuJoCo {mujoco.__version__}, {path.stem}: not readable ({error})")
            continue
        steppers = {name: make(model, args.threads) for name, make in ways().items()}
        speeds: dict[str, list[float]] = {name: [] for name in steppers}
        for _ in range(ROUNDS):
            for name, step in steppers.items():
                start, count = time.perf_counter(), 0
                while (spent := time.perf_counter() - start) < SECONDS:
                    step(rng.uniform(-1, 1, (ROBOTS, model.nu)))
                    count += ROBOTS
                speeds[name].append(count / spent)
        middle = {name: float(np.median(values)) for name, values in speeds.items()}
        shares = ", ".join(
            f"{name} {value:,.0f}/s ({value / middle['limit']:.0%})"
            for name, value in middle.items()
        )
        print(f"MuJoCo {mujoco.__version__}, {path.stem}: {shares}")


if __name__ == "__main__":
    main()
