"""Trains the sample: a classifier of handwritten digits, on the data set that ships with scikit-learn.

    pip install -r samples/digits/requirements.txt
    python samples/digits/train.py

writes `digits.onnx` (input `image`, f32 [batch, 8, 8], grey levels 0 to 16; output `probability`, f32 [batch, 10]) and
`images.npz`, twelve images that the training did not see, with their labels in `labels.txt`.
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

HERE = Path(__file__).parent


def main() -> None:
    digits = load_digits()
    train, test, train_labels, test_labels = train_test_split(
        digits.images.astype(np.float32), digits.target, test_size=0.25, random_state=0
    )
    classifier = MLPClassifier((64, 32), max_iter=400, random_state=0)
    classifier.fit(train.reshape(-1, 64) / 16, train_labels)
    print(f"accuracy on unseen images: {classifier.score(test.reshape(-1, 64) / 16, test_labels):.3f}")
    onnx.save(export(classifier), HERE / "digits.onnx")
    np.savez(HERE / "images.npz", image=test[:12])
    (HERE / "labels.txt").write_text(" ".join(map(str, test_labels[:12])) + "\n")


def export(classifier: MLPClassifier) -> onnx.ModelProto:
    """The trained network as ONNX."""
    initializers = [
        numpy_helper.from_array(np.array(1 / 16, np.float32), "scale"),
        numpy_helper.from_array(np.array([0, 64], np.int64), "flat"),
    ]
    nodes = [
        helper.make_node("Mul", ["image", "scale"], ["scaled"], "scale_grey_levels"),
        helper.make_node("Reshape", ["scaled", "flat"], ["x0"], "flatten"),
    ]
    layers = list(zip(classifier.coefs_, classifier.intercepts_, strict=True))
    for i, (weight, bias) in enumerate(layers):
        initializers.append(numpy_helper.from_array(weight.astype(np.float32), f"w{i}"))
        initializers.append(numpy_helper.from_array(bias.astype(np.float32), f"b{i}"))
        nodes.append(helper.make_node("Gemm", [f"x{i}", f"w{i}", f"b{i}"], [f"y{i}"], f"layer{i}"))
        if i + 1 < len(layers):
            nodes.append(helper.make_node("Relu", [f"y{i}"], [f"x{i + 1}"], f"relu{i}"))
    nodes.append(helper.make_node("Softmax", [f"y{len(layers) - 1}"], ["probability"], "softmax", axis=1))
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 8, 8])],
        [helper.make_tensor_value_info("probability", TensorProto.FLOAT, ["batch", 10])],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    main()
