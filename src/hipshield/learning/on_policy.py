"""The on-policy learner: an epoch's own episodes, one policy step, and critics fitted after it."""

from hipshield.learning.acting import Actor, Pilot, make_actor
from hipshield.learning.catalogue import Algorithm
from hipshield.learning.config import TrainConfig
from hipshield.learning.lagrange import START
from hipshield.learning.learner import Improved, Learner, Memory, Metrics
from hipshield.learning.networks import make_networks
from hipshield.learning.sro import Sro
from hipshield.learning.state import Batch, TrainState, start_state
from hipshield.learning.update import Recipe, fit, improve


def make_recipe(config: TrainConfig, row: Algorithm, inputs: int, actions: int) -> Recipe:
    """Return what stays the same in all updates of a run."""
    return Recipe(
        algorithm=row,
        networks=make_networks(inputs, actions, config.hidden),
        sro=Sro(weight=config.sro, estimator=config.sro_estimator),
        gamma=config.gamma,
        cost_gamma=config.cost_gamma,
        lam=config.lam,
        cost_lam=config.lam,
        cost_limit=config.cost_limit,
        multiplier_rate=config.multiplier_rate,
        epochs=config.epochs,
    )


def on_policy(recipe: Recipe, seed: int) -> Learner:
    """Return the learner; it remembers nothing but its state."""

    def act(state: TrainState) -> Actor:
        return make_actor(recipe.networks.policy, state.theta, state.normaliser)

    def step(state: TrainState, memory: Memory, batch: Batch) -> tuple[Memory, Improved]:
        return memory, improve(recipe, state, batch, seed)

    def finish(improved: Improved) -> tuple[TrainState, Metrics]:
        return fit(recipe, *improved, seed)

    return Learner(
        start=lambda: start_state(recipe.networks, seed, START),
        policy=act,
        explorer=lambda state: Pilot(act(state)),
        remembers=0,
        recall=lambda batches: None,
        improve=step,
        finish=finish,
    )
