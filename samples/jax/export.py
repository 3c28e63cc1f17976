"""Trains a small JAX model and exports it: two arms of a spiral, told apart by a network with one hidden layer.

    pip install -r samples/jax/requirements.txt
    python samples/jax/export.py

writes `spiral.jaxexport` (arguments `points`, f32 [batch, 2], and the parameters `w1`, `b1`, `w2`, `b2`; the result is the probability
of the second arm, f32 [batch]), the trained parameters as `params.npz`, and `points.npz`, points that the training did not see.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

jax.config.update("jax_traceback_in_locations_limit", 0)  # else the file names the folder that it was exported in

HERE = Path(__file__).parent
HIDDEN = 32
STEPS = 3000
NAMES = ("w1", "b1", "w2", "b2")


def spiral(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of both arms with a little noise, and which arm each is of."""
    random = np.random.default_rng(seed)
    arm = random.integers(0, 2, count)
    turn = random.uniform(0.3, 1.0, count)
    angle = 2 * np.pi * turn + np.pi * arm
    points = np.stack([turn * np.cos(angle), turn * np.sin(angle)], axis=1)
    return (points + random.normal(0, 0.015, points.shape)).astype(np.float32), arm


def predict(points, w1, b1, w2, b2):
    hidden = jnp.tanh(points @ w1 + b1)
    return jax.nn.sigmoid((hidden @ w2 + b2)[:, 0])


def trained() -> dict[str, jax.Array]:
    """Parameters after plain gradient descent with momentum."""
    points, arm = spiral(600, seed=0)
    first, second = jax.random.split(jax.random.key(0))
    params = {
        "w1": 4 * jax.random.normal(first, (2, HIDDEN)),
        "b1": jnp.zeros(HIDDEN),
        "w2": jax.random.normal(second, (HIDDEN, 1)) / HIDDEN,
        "b2": jnp.zeros(1),
    }

    def loss(params):
        p = jnp.clip(predict(points, **params), 1e-6, 1 - 1e-6)
        return -jnp.mean(jnp.where(arm == 1, jnp.log(p), jnp.log(1 - p)))

    @jax.jit
    def step(params, speed):
        slope = jax.grad(loss)(params)
        speed = jax.tree.map(lambda v, g: 0.95 * v - 0.1 * g, speed, slope)
        return jax.tree.map(jnp.add, params, speed), speed

    speed = jax.tree.map(jnp.zeros_like, params)
    for _ in range(STEPS):
        params, speed = step(params, speed)
    return params


def main() -> None:
    params = trained()
    points, arm = spiral(12, seed=1)
    found = np.asarray(predict(points, **params)) > 0.5
    print(f"{int((found == (arm == 1)).sum())} of {len(arm)} unseen points right")
    (batch,) = export.symbolic_shape("batch")
    shapes = [(batch, 2), *(params[name].shape for name in NAMES)]
    types = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    exported = export.export(jax.jit(predict))(*types)
    (HERE / "spiral.jaxexport").write_bytes(exported.serialize())
    np.savez(HERE / "params.npz", **{name: np.asarray(p) for name, p in params.items()})
    np.savez(HERE / "points.npz", points=points)


if __name__ == "__main__":
    main()
