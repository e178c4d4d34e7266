"""Names of our parameters in the models of `torch.nn` and in BLOOM."""

from regard.export.huggingface.parameter_names import (
    ParameterNames,
    TensorView,
    fused_qkv,
    layers,
    linear,
    norm,
    prefixed,
)


def torch_attention() -> ParameterNames:
    """`torch.nn.MultiheadAttention`: the three projections one below the other."""
    projections = fused_qkv("in_proj_weight", "in_proj_bias", lambda third, tensor: tensor.chunk(3)[third])
    return projections | linear("output", "out_proj")


def torch_block(*, cross: bool) -> ParameterNames:
    """`torch.nn.TransformerEncoderLayer`, or with cross-attention `TransformerDecoderLayer`."""
    block = {
        **prefixed("attention", "self_attn", torch_attention()),
        **norm("around_attention.norm", "norm1"),
        **linear("feedforward.up", "linear1"),
        **linear("feedforward.down", "linear2"),
        **norm("around_feedforward.norm", "norm3" if cross else "norm2"),
    }
    if not cross:
        return block
    return block | prefixed("cross", "multihead_attn", torch_attention()) | norm("around_cross.norm", "norm2")


def torch_stack(depth: int, *, cross: bool, final_norm: bool) -> ParameterNames:
    """`torch.nn.TransformerEncoder`, or with cross-attention `TransformerDecoder`."""
    blocks = layers(depth, "blocks", "layers", torch_block(cross=cross))
    return blocks | norm("final_norm", "norm") if final_norm else blocks


def bloom(depth: int, heads: int) -> ParameterNames:
    """`BloomForCausalLM`, which keeps query, key and value of each head together."""
    thirds = fused_qkv("weight", "bias", lambda third, tensor: tensor.unflatten(0, (heads, 3, -1))[:, third])
    block = {
        **norm("around_attention.norm", "input_layernorm"),
        **prefixed("attention", "self_attention.query_key_value", thirds),
        **linear("attention.output", "self_attention.dense"),
        **norm("around_feedforward.norm", "post_attention_layernorm"),
        **linear("feedforward.up", "mlp.dense_h_to_4h"),
        **linear("feedforward.down", "mlp.dense_4h_to_h"),
    }
    return {
        "embedding.table.weight": TensorView("transformer.word_embeddings.weight"),
        **norm("stack.input_norm", "transformer.word_embeddings_layernorm"),
        **layers(depth, "stack.blocks", "transformer.h", block),
        **norm("stack.final_norm", "transformer.ln_f"),
    }
