"""Random programs of nested branches and loops, all of which end."""

from __future__ import annotations

from random import Random

import numpy as np

from fornaxc.ir import compose
from fornaxc.ir.builder import GraphBuilder
from fornaxc.ir.graph import Array, Graph, Value
from fornaxc.ir.ops import If, While
from fornaxc.ir.types import DType, TensorType

ROW, NUMBER, TRUTH = (TensorType(d, s) for d, s in ((DType.F32, (3,)), (DType.I64, ()), (DType.BOOL, ())))
MOST_TRIPS = 4

Pool = dict[TensorType, list[Value]]


def random_program(seed: int) -> Graph:
    """Inputs: two f32[3], two i64[], two bool[]."""
    dice = Random(seed)
    b = GraphBuilder()
    pool: Pool = {t: [b.input(t, f"{t.dtype}{i}") for i in range(2)] for t in (ROW, NUMBER, TRUTH)}
    weight = np.array([1, np.nan, -2], np.float32)
    pool[ROW].append(b.weight(ROW, lambda: weight))
    _grow(dice, b, pool, 8, 0)
    outputs = [dice.choice(values) for values in pool.values() for _ in range(2)]
    return b.finish(outputs, [f"y{i}" for i in range(len(outputs))])


def random_inputs(seed: int) -> list[Array]:
    rng = np.random.default_rng(seed)
    rows = rng.choice(np.array([0, -0.0, 1.5, -3, np.nan, np.inf], np.float32), (2, 3))
    numbers = rng.integers(-2, MOST_TRIPS + 2, 2)
    return [*rows, *(np.array(n) for n in numbers), *(np.array(t) for t in rng.integers(0, 2, 2).astype(bool))]


def _constant(dice: Random, b: GraphBuilder, type: TensorType) -> Value:
    """A literal or, where it is of floats, perhaps a weight."""
    if type == TRUTH:
        return b.literal(np.array(dice.random() < 0.5))
    if type == NUMBER:
        return b.literal(np.array(dice.randrange(-1, MOST_TRIPS)))
    row = np.array([dice.choice((0, 1, -0.5, np.nan, np.inf)) for _ in range(3)], np.float32)
    return b.literal(row) if dice.random() < 0.6 else b.weight(ROW, lambda: row)


def _grow(dice: Random, b: GraphBuilder, pool: Pool, count: int, depth: int) -> None:
    for _ in range(count):
        kind = dice.randrange(10)
        if kind == 0:
            type = dice.choice((ROW, NUMBER, TRUTH))
            pool[type].append(_constant(dice, b, type))
        elif kind <= 2:
            made = compose.binary(b, dice.choice(("add", "mul", "min")), dice.choice(pool[ROW]), dice.choice(pool[ROW]))
            pool[ROW].append(made)
        elif kind == 3:
            pool[ROW].append(compose.unary(b, dice.choice(("neg", "relu", "exp")), dice.choice(pool[ROW])))
        elif kind == 4:
            pool[NUMBER].append(compose.binary(b, "add", dice.choice(pool[NUMBER]), _constant(dice, b, NUMBER)))
        elif kind == 5:
            made = compose.compare(b, dice.choice(("lt", "eq")), dice.choice(pool[NUMBER]), dice.choice(pool[NUMBER]))
            pool[TRUTH].append(made)
        elif kind == 6:
            pool[TRUTH].append(compose.binary(b, "or", dice.choice(pool[TRUTH]), dice.choice(pool[TRUTH])))
        elif depth < 3:
            (_branch if kind <= 8 else _loop)(dice, b, pool, depth + 1)


def _inner(pool: Pool) -> Pool:
    return {type: list(values) for type, values in pool.items()}


def _branch(dice: Random, b: GraphBuilder, pool: Pool, depth: int) -> None:
    condition = dice.choice(pool[TRUTH]) if dice.random() < 0.7 else _constant(dice, b, TRUTH)
    types = tuple(dice.choice((ROW, NUMBER, TRUTH)) for _ in range(dice.randrange(1, 4)))
    regions = []
    for _ in range(2):
        inner, known = GraphBuilder(b), _inner(pool)
        _grow(dice, inner, known, 3, depth)
        regions.append(inner.finish([_one_of(dice, inner, known, t) for t in types]))
    for value in b.emit_all(If(types), condition, regions=tuple(regions)):
        pool[value.type].append(value)


def _one_of(dice: Random, b: GraphBuilder, pool: Pool, type: TensorType) -> Value:
    """Early values are those from outside."""
    kind = dice.randrange(6)
    return _constant(dice, b, type) if kind == 0 else pool[type][0] if kind == 1 else dice.choice(pool[type])


def _loop(dice: Random, b: GraphBuilder, pool: Pool, depth: int) -> None:
    """A counter comes first, so that every loop ends; what is carried may stay, change places or begin anew."""
    limit = _constant(dice, b, NUMBER)
    if dice.random() < 0.5:
        limit = compose.binary(b, "min", dice.choice(pool[NUMBER]), b.literal(np.array(MOST_TRIPS)))
    types = [dice.choice((ROW, NUMBER, TRUTH)) for _ in range(dice.randrange(1, 5))]
    start = [b.literal(np.array(0)), *(_one_of(dice, b, pool, t) for t in types)]
    test = GraphBuilder(b)
    at, *seen = (test.input(v.type) for v in start)
    goes_on = compose.compare(test, "lt", at, limit)
    truths = [v for v in seen if v.type == TRUTH]
    if truths and dice.random() < 0.5:
        goes_on = compose.binary(test, "and", goes_on, dice.choice(truths))
    step = GraphBuilder(b)
    at, *carried = (step.input(v.type) for v in start)
    known = _inner(pool)
    for value in carried:
        known[value.type].append(value)
    known[NUMBER].append(at)
    _grow(dice, step, known, 3, depth)
    results = [compose.with_scalar(step, "add", at, 1)]
    for before, value in zip(start[1:], carried, strict=True):
        kind = dice.randrange(4)
        results.append(value if kind == 0 else before if kind == 1 else _one_of(dice, step, known, value.type))
    found = b.emit_all(While(), *start, regions=(test.finish([goes_on]), step.finish(results)))
    for value in found:
        pool[value.type].append(value)
