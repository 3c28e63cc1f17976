"""ai.onnx.ml on numbers, against onnxruntime where it follows the specification, else against values worked out here."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import onnx
import pytest
from against_onnxruntime import ML, assert_agrees, computed, one_node, reference
from forests import MODES, forest
from onnx import helper

from fornaxc.errors import ModelError, UnsupportedError
from fornaxc.importers.onnx.importer import import_model
from fornaxc.importers.onnx.reader import model_from_proto
from fornaxc.ir.interpreter import run

RNG = np.random.default_rng(3)
POST = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
X = np.round(RNG.standard_normal((9, 5)), 1).astype(np.float32)


def f(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def agrees(op: str, *inputs: Any, outputs: Any = ("y",), **attributes: Any) -> None:
    assert_agrees(op, inputs, outputs, domain=ML, **attributes)


def found(op: str, *inputs: Any, outputs: Any = ("y",), **attributes: Any) -> list[Any]:
    return computed(*one_node(op, inputs, outputs, domain=ML, **attributes))


def refusal(op: str, *inputs: Any, outputs: Any = ("y",), **attributes: Any) -> str:
    with pytest.raises(UnsupportedError) as refused:
        found(op, *inputs, outputs=outputs, **attributes)
    return str(refused.value.details[0].get("reason", refused.value.message))


# --- trees


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize(
    ("targets", "shape"), [(1, {}), (3, {}), (3, {"own_target": True}), (3, {"sparse": True})], ids=str
)
def test_tree_regressor(aggregate: str, targets: int, shape: dict[str, Any]) -> None:
    trees = forest("target", targets, modes=MODES, seed=targets, **shape)
    agrees("TreeEnsembleRegressor", X, n_targets=targets, aggregate_function=aggregate, **trees)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_base_values_are_added_last(aggregate: str) -> None:
    base = [0.5, 0.2, -0.3]
    trees = forest("target", 3, seed=4)
    agrees(
        "TreeEnsembleRegressor", X, n_targets=3, aggregate_function=aggregate, base_values=base, symbolic=True, **trees
    )


def test_a_target_without_weights_is_its_base_value() -> None:
    trees = forest("target", 3, ids=[0, 2], seed=5)
    (y,) = found("TreeEnsembleRegressor", X, n_targets=3, base_values=[0.5, 0.2, -0.3], **trees)
    np.testing.assert_array_equal(y[:, 1], np.float32(0.2))


@pytest.mark.parametrize("transform", POST)
def test_transforms_of_a_tree_regressor(transform: str) -> None:
    trees = forest("target", 3, positive=True, seed=6)
    agrees("TreeEnsembleRegressor", X / 4, n_targets=3, post_transform=transform, **trees)
    if transform not in ("NONE", "PROBIT"):
        trees = forest("target", 1)
        assert "single target" in refusal("TreeEnsembleRegressor", X, post_transform=transform, **trees)


@pytest.mark.parametrize("missing", [False, True])
def test_missing_values(missing: bool) -> None:
    x = np.where(RNG.random(X.shape) < 0.3, np.float32(np.nan), X)
    agrees("TreeEnsembleRegressor", x, n_targets=2, **forest("target", 2, modes=MODES, missing=missing, seed=7))


def test_deep_forests_are_few_operations() -> None:
    model, feeds = one_node(
        "TreeEnsembleRegressor", [X], domain=ML, n_targets=2, **forest("target", 2, trees=60, depth=13, seed=8)
    )
    graph = import_model(model_from_proto(model), {})
    assert sum(1 for _ in graph.walk()) < 40
    np.testing.assert_allclose(run(graph, [X])[0], reference(model, feeds)[0], rtol=1e-4, atol=1e-5)


def test_samples_of_other_types() -> None:
    agrees("TreeEnsembleRegressor", X.astype(np.float64), n_targets=2, **forest("target", 2, seed=9))
    agrees(
        "TreeEnsembleClassifier",
        (X * 3).astype(np.int64),
        outputs=["label", "scores"],
        classlabels_int64s=[7, -3, 5],
        **forest("class", 3, seed=9),
    )


@pytest.mark.parametrize("transform", POST)
@pytest.mark.parametrize("own_target", [False, True])
def test_classifier_of_three_classes(transform: str, own_target: bool) -> None:
    positive = transform == "PROBIT"
    trees = forest("class", 3, own_target=own_target, positive=positive, trees=12 if positive else 6, seed=10)
    common = {"outputs": ["label", "scores"], "classlabels_int64s": [7, -3, 5], "post_transform": transform}
    agrees("TreeEnsembleClassifier", X, **common, **trees)
    if not positive:
        agrees("TreeEnsembleClassifier", X, base_values=[0.1, 0.2, 0.3], **common, **trees)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("base", [None, [0.1]])
def test_classifier_with_weights_of_one_class_of_two(transform: str, positive: bool, base: list[float] | None) -> None:
    trees = forest("class", 2, ids=[0], positive=positive, seed=11)
    more: dict[str, Any] = {} if base is None else {"base_values": base}
    common = {"outputs": ["label", "scores"], "classlabels_int64s": [4, 9], "post_transform": transform}
    agrees("TreeEnsembleClassifier", X, **common, **more, **trees)


@pytest.mark.parametrize("transform", ["SOFTMAX", "SOFTMAX_ZERO", "PROBIT", "LINEAR"])
def test_post_transforms_of_one_score_on_which_tools_disagree_are_refused(transform: str) -> None:
    trees = forest("class", 2, ids=[0], positive=True, seed=11)
    common = {"outputs": ["label", "scores"], "classlabels_int64s": [4, 9], "post_transform": transform}
    assert transform in refusal("TreeEnsembleClassifier", X, **common, **trees)


def test_the_label_of_two_classes_with_weights_of_both_is_that_of_the_larger_score() -> None:
    label, scores = found(
        "TreeEnsembleClassifier",
        X,
        outputs=["label", "scores"],
        classlabels_int64s=[4, 9],
        **forest("class", 2, seed=12),
    )
    np.testing.assert_array_equal(label, np.array([4, 9])[scores.argmax(axis=1)])


def test_labels_that_are_strings_are_refused_where_they_are_an_output() -> None:
    trees = forest("class", 3, seed=13)
    names = {"classlabels_strings": ["a", "b", "c"]}
    assert "'label'" in refusal("TreeEnsembleClassifier", X, outputs=["label", "scores"], **names, **trees)
    (scores,) = found("TreeEnsembleClassifier", X, outputs=["", "scores"], **names, **trees)
    assert scores.shape == (9, 3)


def listed_5(**attributes: Any) -> dict[str, Any]:
    """Feature 0 <= 0.1 leads to a test of feature 1, else to one of feature 2; four leaves."""

    def tensor(values: Any, kind: Any = np.float32) -> onnx.TensorProto:
        return onnx.numpy_helper.from_array(np.array(values, kind))

    return {
        "tree_roots": [0],
        "nodes_featureids": [0, 1, 2],
        "nodes_splits": tensor([0.1, -0.2, 0.3]),
        "nodes_modes": tensor([0, 0, 0], np.uint8),
        "nodes_truenodeids": [1, 0, 2],
        "nodes_trueleafs": [0, 1, 1],
        "nodes_falsenodeids": [2, 1, 3],
        "nodes_falseleafs": [0, 1, 1],
        "leaf_targetids": [0, 1, 0, 1],
        "leaf_weights": tensor([1.0, 2.0, 3.0, 4.0]),
        "n_targets": 2,
        "ml": 5,
        **{
            k: tensor(v, np.uint8 if k == "nodes_modes" else np.float32) for k, v in attributes.items() if v is not None
        },
    }


@pytest.mark.parametrize("aggregate", range(4))
@pytest.mark.parametrize("modes", [[0, 0, 0], [1, 2, 3], [4, 5, 0]])
def test_tree_ensemble(aggregate: int, modes: list[int]) -> None:
    agrees("TreeEnsemble", X, aggregate_function=aggregate, **listed_5(nodes_modes=modes))


def test_tree_ensemble_on_sets_and_with_transforms() -> None:
    members = [0.1, -0.5, 0.7, np.nan, 1.1, 0.2, -0.1, -0.6, np.nan]
    x = np.round(RNG.standard_normal((200, 3)), 1).astype(np.float32)
    (y,) = found("TreeEnsemble", x, **listed_5(nodes_modes=[0, 6, 6], membership_values=members))
    first, second = (np.isin(x[:, k], np.float32(v)) for k, v in ((1, members[:3]), (2, members[4:8])))
    leaf = np.where(x[:, 0] <= np.float32(0.1), np.where(first, 0, 1), np.where(second, 2, 3))
    wanted = np.zeros((200, 2), np.float32)
    wanted[np.arange(200), leaf % 2] = leaf + 1
    np.testing.assert_array_equal(y, wanted)
    (softmax,) = found("TreeEnsemble", x, post_transform=1, **listed_5())
    (plain,) = found("TreeEnsemble", x, **listed_5())
    np.testing.assert_allclose(softmax, np.exp(plain) / np.exp(plain).sum(axis=1, keepdims=True), rtol=1e-5)


# --- linear models and support vector machines


@pytest.mark.parametrize("transform", POST[:4])
def test_linear_models(transform: str) -> None:
    common = {"post_transform": transform, "coefficients": f(15).tolist(), "intercepts": f(3).tolist()}
    agrees("LinearRegressor", X, targets=3, **common)
    agrees("LinearClassifier", X, outputs=["label", "scores"], classlabels_ints=[5, 1, 7], **common)


def test_linear_models_of_one_score() -> None:
    one = {"coefficients": f(5).tolist(), "intercepts": f(1).tolist()}
    agrees("LinearRegressor", X, symbolic=True, **one)
    agrees("LinearRegressor", X, coefficients=f(5).tolist())
    two = {"outputs": ["label", "scores"], "classlabels_ints": [4, 1]}
    agrees("LinearClassifier", X, post_transform="LOGISTIC", **two, **one)
    assert "one score" in refusal("LinearClassifier", X, post_transform="NONE", **two, **one)
    weights = f(5)
    _, scores = found("LinearClassifier", X, post_transform="LOGISTIC", coefficients=weights.tolist(), **two)
    np.testing.assert_allclose(scores[:, 1], 1 / (1 + np.exp(-X @ weights)), rtol=1e-5)


def test_coefficients_that_do_not_fit_the_features_are_an_error() -> None:
    with pytest.raises(ModelError) as problem:
        found("LinearRegressor", X[:, :2], coefficients=f(5).tolist())
    assert "5 coefficients for 1 scores of 2 features" in problem.value.message


KERNELS = ["LINEAR", "POLY", "RBF", "SIGMOID"]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("one_class", [0, 1])
def test_support_vector_regressor(kernel: str, one_class: int) -> None:
    vectors = {"coefficients": f(6).tolist(), "support_vectors": f(30).tolist(), "n_supports": 6, "rho": [0.3]}
    kind = {"kernel_type": kernel, "kernel_params": [0.3, 0.5, 3.0]}
    agrees("SVMRegressor", X, one_class=one_class, **vectors, **kind)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("counts", [[3, 4], [3, 2, 4], [1, 3, 2, 2]], ids=len)
@pytest.mark.parametrize("kind", ["NONE", "LOGISTIC", "chances"])
def test_support_vector_classifier(kernel: str, counts: list[int], kind: str) -> None:
    classes, total = len(counts), sum(counts)
    pairs = classes * (classes - 1) // 2
    attributes: dict[str, Any] = {"kernel_type": kernel, "kernel_params": [0.3, 0.5, 3.0]}
    attributes |= {"coefficients": f((classes - 1) * total).tolist(), "support_vectors": f(total * 5).tolist()}
    attributes |= {"rho": f(pairs).tolist(), "vectors_per_class": counts, "classlabels_ints": [*range(3, 3 + classes)]}
    if kind == "chances":
        attributes |= {"prob_a": (-np.abs(f(pairs))).tolist(), "prob_b": f(pairs).tolist()}
    else:
        attributes["post_transform"] = kind
    agrees("SVMClassifier", X, outputs=["label", "scores"], **attributes)


# --- features


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.int32])
def test_normalizer(norm: str, kind: Any) -> None:
    x = (X * 3).astype(kind)
    x[1] = 0
    agrees("Normalizer", x, norm=norm)
    agrees("Normalizer", x[2], norm=norm)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.int32])
def test_scaler_and_binarizer(kind: Any) -> None:
    x = (X * 3).astype(kind)
    agrees("Scaler", x, offset=f(5).tolist(), scale=f(5).tolist())
    agrees("Scaler", x, offset=[0.5], scale=[2.0])
    (y,) = found("Binarizer", x, threshold=1.0)
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, x > 1)


def test_array_feature_extractor() -> None:
    agrees("ArrayFeatureExtractor", X, np.array([3, 0, 3]))
    agrees("ArrayFeatureExtractor", f(2, 3, 5), np.array([[3, 0]]))
    agrees("ArrayFeatureExtractor", f(5), np.array([3, 0]))


def test_imputer() -> None:
    x = np.where(RNG.random(X.shape) < 0.3, np.float32(np.nan), X)
    each = [1.0, 2.0, 3.0, 4.0, 5.0]
    agrees("Imputer", x, imputed_value_floats=each, replaced_value_float=float("nan"))
    whole = np.array([[1, 2], [3, 1]])
    agrees("Imputer", whole, imputed_value_int64s=[7], replaced_value_int64=1)
    agrees("Imputer", whole, imputed_value_int64s=[7, 8], replaced_value_int64=1)


def test_one_hot_encoder(caplog: pytest.LogCaptureFixture) -> None:
    categories = {"cats_int64s": [5, 3, 4]}
    agrees("OneHotEncoder", np.array([3, 5, 9, 4]), **categories)
    agrees("OneHotEncoder", np.array([[3, 5], [9, 4]], np.float32), **categories)
    agrees("OneHotEncoder", np.array([[3], [5]]), zeros=0, **categories)
    with caplog.at_level(logging.WARNING):
        (y,) = found("OneHotEncoder", np.array([4, 9]), zeros=0, **categories)
    assert "unknown category" in caplog.text
    np.testing.assert_array_equal(y, np.array([[0, 0, 1], [np.nan] * 3], np.float32))
    assert "strings" in refusal("OneHotEncoder", np.array([3]), cats_strings=["a"])


def test_feature_vectorizer() -> None:
    agrees("FeatureVectorizer", f(4, 2), f(4, 3), inputdimensions=[2, 3])
    agrees("FeatureVectorizer", np.arange(8).reshape(4, 2), np.arange(4).reshape(4, 1), inputdimensions=[2, 1])


def test_label_encoder() -> None:
    x = np.array([[1, 2], [7, 3]])
    agrees("LabelEncoder", x, keys_int64s=[3, 2, 1], values_int64s=[10, 20, 30])
    agrees("LabelEncoder", x, keys_int64s=[3, 2, 1], values_floats=[0.5, 0.25, 0.1], default_float=-3.0)
    agrees("LabelEncoder", np.array([1.5, 2.0], np.float32), keys_floats=[1.5], values_int64s=[4], default_int64=99)
    tensors = {
        f"{what}_tensor": onnx.numpy_helper.from_array(np.array(values))
        for what, values in (("keys", [1.5, np.nan]), ("values", [4.0, 5.0]), ("default", [-1.0]))
    }
    agrees("LabelEncoder", np.array([1.5, np.nan, 7.0]), ml=4, **tensors)
    assert "strings" in refusal("LabelEncoder", x, keys_int64s=[1], values_strings=["a"])


def test_zipmap_is_dropped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    classify = helper.make_node(
        "LinearClassifier",
        ["x"],
        ["label", "scores"],
        domain=ML,
        coefficients=f(15).tolist(),
        intercepts=f(3).tolist(),
        classlabels_ints=[0, 1, 2],
        post_transform="SOFTMAX",
    )
    zipped = helper.make_node("ZipMap", ["scores"], ["maps"], domain=ML, classlabels_int64s=[0, 1, 2])
    maps = helper.make_map_type_proto(onnx.TensorProto.INT64, helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, []))
    outputs = [
        helper.make_tensor_value_info("label", onnx.TensorProto.INT64, [9]),
        helper.make_value_info("maps", helper.make_sequence_type_proto(maps)),
    ]
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [9, 5])]
    graph = helper.make_graph([classify, zipped], "g", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(ML, 1)], ir_version=8)
    with caplog.at_level(logging.WARNING):
        label, scores = computed(model, {"x": X})
    assert "[0, 1, 2]" in caplog.text
    np.testing.assert_array_equal(label, scores.argmax(axis=1))
    np.testing.assert_allclose(scores.sum(axis=1), 1, rtol=1e-5)


# --- attributes that break the specification


def invalid(op: str, *inputs: Any, outputs: Any = ("y",), **attributes: Any) -> str:
    with pytest.raises(ModelError) as problem:
        found(op, *inputs, outputs=outputs, **attributes)
    return problem.value.message


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"kernel_params": [0.5]}, "1 kernel_params"),
        ({"rho": None}, "0 entries of rho"),
        ({"support_vectors": [0.5] * 29}, "29 numbers for 6 support vectors"),
        ({"support_vectors": [0.5] * 24}, "24 numbers for 6 support vectors of 5 features"),
        ({"coefficients": [0.5] * 5}, "5 coefficients for 6"),
        ({"n_supports": -1}, "support vectors"),
    ],
)
def test_support_vector_regressors_that_are_broken(change: dict[str, Any], reason: str) -> None:
    whole = {"coefficients": [0.5] * 6, "support_vectors": [0.5] * 30, "n_supports": 6, "rho": [0.3]}
    assert reason in invalid("SVMRegressor", X, **{**whole, "kernel_params": [0.3, 0.5, 3.0], **change})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"support_vectors": [0.5] * 24}, "24 numbers for 5 support vectors"),
        ({"coefficients": [-0.5] * 9}, "9 coefficients, not 10"),
        ({"vectors_per_class": [3, 3, -1]}, "vectors_per_class [3, 3, -1]"),
    ],
)
def test_support_vector_classifiers_that_are_broken(change: dict[str, Any], reason: str) -> None:
    whole = {"coefficients": [-0.5] * 10, "support_vectors": [0.5] * 25, "vectors_per_class": [2, 2, 1]}
    attributes = {**whole, "rho": [0.1] * 3, "classlabels_ints": [0, 1, 2], **change}
    assert reason in invalid("SVMClassifier", X, outputs=["label", "scores"], **attributes)


STUMP: dict[str, Any] = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_featureids": [0, 0, 0],
    "nodes_values": [0.5, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
    "target_treeids": [0, 0],
    "target_nodeids": [1, 2],
    "target_ids": [0, 0],
    "target_weights": [1.0, 2.0],
}


@pytest.mark.parametrize(
    "change",
    [
        {"nodes_featureids": [0, 0]},
        {"nodes_values": [0.5]},
        {"nodes_truenodeids": [1]},
        {"nodes_falsenodeids": None},
        {"nodes_missing_value_tracks_true": [1]},
        {"target_nodeids": [1]},
        {"target_ids": [0]},
        {"target_weights": [1.0]},
        {"nodes_featureids": [-1, 0, 0]},
    ],
    ids=str,
)
def test_lists_of_nodes_that_are_broken(change: dict[str, Any]) -> None:
    np.testing.assert_array_equal(found("TreeEnsembleRegressor", X, **STUMP)[0][:, 0], np.where(X[:, 0] <= 0.5, 1, 2))
    reason = "below 0" if -1 in (next(iter(change.values())) or ()) else "different lengths"
    assert reason in invalid("TreeEnsembleRegressor", X, **{**STUMP, **change})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tree_roots": [3]}, "none of the 3 nodes"),
        ({"tree_roots": [-1]}, "none of the 3 nodes"),
        ({"tree_roots": None}, "no tree_roots"),
        ({"nodes_featureids": [0, -1, 2]}, "below 0"),
        ({"nodes_missing_value_tracks_true": [1]}, "different lengths"),
        ({"n_targets": 0}, "0 targets"),
    ],
    ids=str,
)
def test_split_lists_of_nodes_that_are_broken(change: dict[str, Any], reason: str) -> None:
    assert reason in invalid("TreeEnsemble", X, **{**listed_5(), **change})


def test_modes_and_sets_that_are_broken() -> None:
    assert "0 to 6" in invalid("TreeEnsemble", X, **listed_5(nodes_modes=[0, 7, 0]))
    assert "without membership_values" in invalid("TreeEnsemble", X, **listed_5(nodes_modes=[0, 6, 0]))
    one = listed_5(nodes_modes=[0, 6, 6], membership_values=[0.1, 0.2])
    assert "1 sets of members for 2 tests" in invalid("TreeEnsemble", X, **one)
    ended = listed_5(nodes_modes=[0, 6, 6], membership_values=[0.1, np.nan])
    assert "a set without members" in invalid("TreeEnsemble", X, **ended)


@pytest.mark.parametrize("threshold", [float("inf"), float("nan"), 0.5, 1e30])
def test_thresholds_that_no_integer_is(threshold: float) -> None:
    assert "threshold" in refusal("Binarizer", np.array([1, 2]), threshold=threshold)


def test_nan_is_no_category() -> None:
    (y,) = found("OneHotEncoder", np.array([np.nan, 0.0, 1.0], np.float32), cats_int64s=[0, 1])
    np.testing.assert_array_equal(y, [[0, 0], [1, 0], [0, 1]])
    (y,) = found("OneHotEncoder", np.array([np.nan, 0.0], np.float32), cats_int64s=[0], zeros=0)
    np.testing.assert_array_equal(y, [[np.nan], [1]])
