"""The same results sooner: fused, sparse and decoding kernels, and the plan that chooses among them."""
