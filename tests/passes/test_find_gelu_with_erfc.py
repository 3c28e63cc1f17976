"""GELU by the complementary error function, as JAX writes it, is recognised behind StableHLO's decomposition; other functions are left."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from composed import assert_same, counts

from fornaxc.importers.stablehlo.importer import import_module
from fornaxc.importers.stablehlo.reader import module_of, parse_text
from fornaxc.ir.checker import check
from fornaxc.ir.dead import drop_dead
from fornaxc.ir.graph import Graph
from fornaxc.ir.interpreter import run
from fornaxc.passes.find_gelu import find_gelu

DTYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64}
ERFC = "%u = chlo.erfc %arg : {t} -> {t}"


def graph_of(body: str, kind: str = "f32", result: str = "y") -> Graph:
    """The graph of a function of %x; `body` knows the numbers %half, %one and %root, the tensor type as {t}."""
    numbers = {"half": 0.5, "one": 1.0, "root": 0.5**0.5}
    text = "\n".join(f"%{n} = stablehlo.constant dense<{v:.17e}> : {{t}}" for n, v in numbers.items())
    text = f"func.func @main(%x: {{t}}) -> {{t}} {{\n{text}\n{body}\nreturn %{result} : {{t}}\n}}"
    return import_module(module_of(parse_text(text.replace("{t}", f"tensor<64x{kind}>"), "m"), Path("m")), {})


def gelu(erfc: str = ERFC, root: str = "root", sign: str = "negate", half: str = "half") -> str:
    """As `jax.nn.gelu` with approximate=False."""
    return f"""
    %halved = stablehlo.multiply %x, %{half} : {{t}}
    %turned = stablehlo.{sign} %x : {{t}}
    %arg = stablehlo.multiply %turned, %{root} : {{t}}
    {erfc}
    %y = stablehlo.multiply %halved, %u : {{t}}"""


@pytest.mark.parametrize("kind", DTYPES)
def test_one_function(kind: str) -> None:
    before = graph_of(gelu(), kind)
    found = drop_dead(find_gelu(before))
    check(found)
    assert counts(found) == {"gelu": 1}
    odd = [0, -0.0, np.nan, np.inf, -np.inf, 1e-7, -1e4, 1e4]
    x = np.concatenate([np.linspace(-9, 9, 56), odd]).astype(DTYPES[kind])
    assert_same(run(found, [x])[0], run(before, [x])[0])


def test_a_gate_that_is_read_elsewhere_stays_for_that() -> None:
    before = graph_of(gelu() + "\n%z = stablehlo.add %y, %u : {t}", result="z")
    found = drop_dead(find_gelu(before))
    assert counts(found)["gelu"] == 1 and counts(found)["select"] > 0
    x = np.linspace(-4, 4, 64).astype(np.float32)
    assert_same(run(found, [x])[0], run(before, [x])[0])


CHOICE = """
    %size = stablehlo.abs %arg : {t}
    %small = stablehlo.compare LT, %size, %one : ({t}, {t}) -> tensor<64xi1>
    %near = stablehlo.subtract %one, %arg : {t}
    %far = stablehlo.exponential %turned : {t}
    %u = stablehlo.select %small, %near, %far : tensor<64xi1>, {t}"""


@pytest.mark.parametrize("kind", DTYPES)
def test_a_function_near_erfc(kind: str) -> None:
    """In halves many roundings are half of a number."""
    near = f"""
    %factor = stablehlo.constant dense<1.2> : {{t}}
    {ERFC.replace("%u", "%e")}
    %more = stablehlo.multiply %e, %factor : {{t}}
    %size = stablehlo.abs %arg : {{t}}
    %small = stablehlo.compare LT, %size, %one : ({{t}}, {{t}}) -> tensor<64xi1>
    %u = stablehlo.select %small, %more, %e : tensor<64xi1>, {{t}}"""
    before = graph_of(gelu(near), kind)
    assert counts(find_gelu(before))["gelu"] == 0


@pytest.mark.parametrize(
    "body",
    [
        gelu(sign="abs"),
        gelu(sign="floor"),
        gelu(root="half"),
        gelu(half="root"),
        gelu(CHOICE),
        gelu(ERFC + "\n%v = stablehlo.add %u, %one : {t}").replace("%halved, %u", "%halved, %v"),
    ],
    ids=["of |x|", "of the floor", "another factor", "not halved", "another function", "a sum"],
)
def test_what_is_left(body: str) -> None:
    before = graph_of(body)
    assert find_gelu(before) is before


def test_one_number_in_a_tensor_is_part_of_the_program() -> None:
    assert all(constant.literal for constant in graph_of(gelu()).constants.values())


def test_a_choice_behind_a_long_chain_is_left() -> None:
    chain = "\n".join(f"%t{i + 1} = stablehlo.tanh %t{i} : {{t}}" for i in range(2000))
    body = gelu(CHOICE.replace("exponential %turned", "exponential %t2000"))
    before = graph_of(body.replace("%size =", f"%t0 = stablehlo.exponential %x : {{t}}\n{chain}\n%size ="))
    assert find_gelu(before) is before
