"""Measures fornaxc against onnxruntime, OpenVINO and IREE: `python -m benchmarks`. README.md beside this file says how."""
