"""Graphs as ONNX models: the way back, so that onnxruntime can judge any graph."""
