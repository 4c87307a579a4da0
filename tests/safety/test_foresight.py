"""Foresight: re-made predictions, and the scores of those whose truth is known."""

import jax
import numpy as np

from hipshield.models.function_encoder import FunctionEncoder
from hipshield.models.predictor import Scale
from hipshield.models.robots import motion_of_robot
from hipshield.safety import foresight

HORIZON, STEPS = 5, 9


def test_it_is_what_predicting_again_from_every_past_state_gives():
    predictor = FunctionEncoder(motion_of_robot("car"), hidden=(8,))
    motion, rng = predictor.motion, np.random.default_rng(0)
    x, y = np.zeros(motion.inputs), np.zeros(motion.outputs)
    params = predictor.init(
        jax.random.key(0), Scale(x, x + 1.0, y + 0.1, y + 0.3, np.zeros(2), np.ones(2))
    )
    z = rng.standard_normal((STEPS + 1, motion.size)).astype(np.float32)
    b = rng.standard_normal((STEPS, predictor.context)).astype(np.float32)
    action = rng.standard_normal((STEPS, motion.actions)).astype(np.float32)

    @jax.jit
    def once(state, b, action):
        y = predictor.predict(params, b, motion.x(state), action)
        return motion.move(state, action, y)

    advance = jax.jit(lambda *given: foresight.advance(predictor, params, *given))
    ahead = foresight.begin(predictor, HORIZON)
    for t in range(STEPS):
        ahead = advance(ahead, z[t], b[t], action[t])
        error, valid = foresight.scores(predictor, ahead, z[t + 1])
        for h in range(1, HORIZON + 1):
            start = t + 1 - h
            assert valid[h - 1] == (start >= 0)
            if start < 0:
                continue
            state = z[start]
            for u in range(start, t + 1):
                state = once(state, b[start], action[u])
            np.testing.assert_allclose(ahead.z[h - 1], state, rtol=1e-4, atol=1e-5)
            wanted = np.linalg.norm(motion.e(state) - motion.e(z[t + 1]))
            np.testing.assert_allclose(error[h - 1], wanted, rtol=1e-4, atol=1e-5)
