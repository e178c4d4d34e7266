"""A model leaves: Hugging Face folder, CTranslate2, ONNX, each with its parity check; and comes in from the first."""
