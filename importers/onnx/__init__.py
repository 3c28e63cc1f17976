"""Reads ONNX model files."""
