"""ONNX graphs of every kind of model."""
