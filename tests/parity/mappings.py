"""Where each parameter of regard lies in the models of `torch.nn`; those of Hugging Face stand in `regard.export`."""

from regard.export.huggingface.parameter_names import Mapping, fused, layers, linear, norm, part


def torch_attention() -> Mapping:
    """`torch.nn.MultiheadAttention`: the three maps one below the other."""
    maps = fused("in_proj_weight", "in_proj_bias", lambda third, tensor: tensor.chunk(3)[third])
    return maps | linear("output", "out_proj")


def torch_block(*, cross: bool) -> Mapping:
    """`torch.nn.TransformerEncoderLayer`, or with cross-attention `TransformerDecoderLayer`."""
    block = {
        **part("attention", "self_attn", torch_attention()),
        **norm("around_attention.norm", "norm1"),
        **linear("feedforward.up", "linear1"),
        **linear("feedforward.down", "linear2"),
        **norm("around_feedforward.norm", "norm3" if cross else "norm2"),
    }
    if not cross:
        return block
    return block | part("cross", "multihead_attn", torch_attention()) | norm("around_cross.norm", "norm2")


def torch_stack(depth: int, *, cross: bool, final_norm: bool) -> Mapping:
    """`torch.nn.TransformerEncoder`, or with cross-attention `TransformerDecoder`."""
    blocks = layers(depth, "blocks", "layers", torch_block(cross=cross))
    return blocks | norm("final_norm", "norm") if final_norm else blocks
