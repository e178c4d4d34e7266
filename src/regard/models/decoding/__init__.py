"""One decoding step and its backends: the module itself, few calls on a CPU, a CUDA graph."""
