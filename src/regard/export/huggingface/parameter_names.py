"""Where each parameter of regard lies in other people's models: one function a model, one entry a parameter.

An entry names a tensor of the other model and a *view* of it. Being a view, it serves both ways: reading it gives our
parameter (or its gradient), writing into it fills the other model. Where shapes differ, the order of numbers does not.
The entries of a block are written once, relative to the block, and repeated for every layer.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from torch import Tensor


@dataclass(frozen=True)
class Place:
    """A tensor of the other model, and the part of it that is meant."""

    name: str
    view: Callable[[Tensor], Tensor] = lambda tensor: tensor


Mapping = dict[str, Place]
"""Parameter of regard → its place in the other model."""


def linear(ours: str, theirs: str, *, bias: bool = True) -> Mapping:
    """A matrix and, where there is one, its bias."""
    weight = {f"{ours}.weight": Place(f"{theirs}.weight")}
    return weight | {f"{ours}.bias": Place(f"{theirs}.bias")} if bias else weight


def norm(ours: str, theirs: str, *, shift: bool = True) -> Mapping:
    """γ and, where there is one, β."""
    gain = {f"{ours}.gain": Place(f"{theirs}.weight")}
    return gain | {f"{ours}.shift": Place(f"{theirs}.bias")} if shift else gain


def attention(names: str, *, bias: bool = True) -> Mapping:
    """Four maps, each with a tensor of its own; `names` are theirs for query, key, value and output."""
    pairs = zip(("query", "key", "value", "output"), names.split(), strict=True)
    return union(linear(ours, theirs, bias=bias) for ours, theirs in pairs)


def fused(weight: str, bias: str, cut: Callable[[int, Tensor], Tensor]) -> Mapping:
    """Query, key and value maps that lie in one tensor; `cut` takes the first, second or third of them."""
    views = {name: partial(cut, third) for third, name in enumerate(("query", "key", "value"))}
    return union({f"{x}.weight": Place(weight, view), f"{x}.bias": Place(bias, view)} for x, view in views.items())


def part(ours: str, theirs: str, mapping: Mapping) -> Mapping:
    """The entries of a part, named from the whole; an empty name where the part is the whole."""
    inside, within = f"{ours}." if ours else "", f"{theirs}." if theirs else ""
    return {inside + name: replace(place, name=within + place.name) for name, place in mapping.items()}


def layers(depth: int, ours: str, theirs: str, block: Mapping) -> Mapping:
    """The entries of a block, for every layer."""
    return union(part(f"{ours}.{layer}", f"{theirs}.{layer}", block) for layer in range(depth))


def union(mappings: Iterable[Mapping]) -> Mapping:
    """Several mappings as one."""
    return {name: place for mapping in mappings for name, place in mapping.items()}


def turned_linear(ours: str, theirs: str) -> Mapping:
    """A matrix stored with the inputs first, and its bias."""
    return {f"{ours}.weight": Place(f"{theirs}.weight", Tensor.t), f"{ours}.bias": Place(f"{theirs}.bias")}


def gpt2(depth: int, *, tied: bool = True) -> Mapping:
    """`GPT2LMHeadModel`, which keeps its matrices with the inputs first."""
    thirds = fused("c_attn.weight", "c_attn.bias", lambda third, tensor: tensor.t().chunk(3)[third])
    block = {
        **norm("around_attention.norm", "ln_1"),
        **part("attention", "attn", thirds),
        **turned_linear("attention.output", "attn.c_proj"),
        **norm("around_feedforward.norm", "ln_2"),
        **turned_linear("feedforward.up", "mlp.c_fc"),
        **turned_linear("feedforward.down", "mlp.c_proj"),
    }
    return {
        "embedding.table.weight": Place("transformer.wte.weight"),
        "stack.positions.0.table.weight": Place("transformer.wpe.weight"),
        **layers(depth, "stack.blocks", "transformer.h", block),
        **norm("stack.final_norm", "transformer.ln_f"),
        **({} if tied else linear("head.linear", "lm_head", bias=False)),
    }


def gpt_neox(depth: int, heads: int, *, tied: bool = True) -> Mapping:
    """`GPTNeoXForCausalLM`, which keeps query, key and value of each head together."""
    thirds = fused("weight", "bias", lambda third, tensor: tensor.unflatten(0, (heads, 3, -1))[:, third])
    block = {
        **norm("around_attention.norm", "input_layernorm"),
        **part("attention", "attention.query_key_value", thirds),
        **linear("attention.output", "attention.dense"),
        **norm("around_feedforward.norm", "post_attention_layernorm"),
        **linear("feedforward.up", "mlp.dense_h_to_4h"),
        **linear("feedforward.down", "mlp.dense_4h_to_h"),
    }
    return {
        "embedding.table.weight": Place("gpt_neox.embed_in.weight"),
        **layers(depth, "stack.blocks", "gpt_neox.layers", block),
        **norm("stack.final_norm", "gpt_neox.final_layer_norm"),
        **({} if tied else linear("head.linear", "lm_head", bias=False)),
    }


def bert_encoder(depth: int) -> Mapping:
    """`BertModel` and `BigBirdModel` without their pooling."""
    block = {
        **part("attention", "attention", attention("self.query self.key self.value output.dense")),
        **norm("around_attention.norm", "attention.output.LayerNorm"),
        **linear("feedforward.up", "intermediate.dense"),
        **linear("feedforward.down", "output.dense"),
        **norm("around_feedforward.norm", "output.LayerNorm"),
    }
    return {
        "embedding.table.weight": Place("embeddings.word_embeddings.weight"),
        "embedding.segments.weight": Place("embeddings.token_type_embeddings.weight"),
        "stack.positions.0.table.weight": Place("embeddings.position_embeddings.weight"),
        **norm("stack.input_norm", "embeddings.LayerNorm"),
        **layers(depth, "stack.blocks", "encoder.layer", block),
    }


def bert(depth: int, *, tied: bool = True) -> Mapping:
    """`BertForMaskedLM`, `BigBirdForMaskedLM`."""
    own = {
        "head.linear.weight": Place("cls.predictions.decoder.weight"),
        "head.bias": Place("cls.predictions.decoder.bias"),
    }
    return {
        **part("", "bert", bert_encoder(depth)),
        **linear("head.transform", "cls.predictions.transform.dense"),
        **norm("head.transform_norm", "cls.predictions.transform.LayerNorm"),
        **({"head.bias": Place("cls.predictions.bias")} if tied else own),
    }


def bert_classifier(depth: int) -> Mapping:
    """`BertForSequenceClassification`."""
    return {
        **part("", "bert", bert_encoder(depth)),
        **linear("head.hidden", "bert.pooler.dense"),
        **linear("head.linear", "classifier"),
    }


def bert_tagger(depth: int) -> Mapping:
    """`BertForTokenClassification`."""
    return {**part("", "bert", bert_encoder(depth)), **linear("head", "classifier")}


def marian(depth: int, decoder_depth: int | None = None, *, one_vocabulary: bool = True) -> Mapping:
    """`MarianMTModel`; its tables of positions are constants, not parameters."""
    block = {
        **part("attention", "self_attn", attention("q_proj k_proj v_proj out_proj")),
        **norm("around_attention.norm", "self_attn_layer_norm"),
        **linear("feedforward.up", "fc1"),
        **linear("feedforward.down", "fc2"),
        **norm("around_feedforward.norm", "final_layer_norm"),
    }
    listening = {
        **part("cross", "encoder_attn", attention("q_proj k_proj v_proj out_proj")),
        **norm("around_cross.norm", "encoder_attn_layer_norm"),
    }
    apart = {
        "source_embedding.table.weight": Place("model.encoder.embed_tokens.weight"),
        "target_embedding.table.weight": Place("model.decoder.embed_tokens.weight"),
    }
    return {
        **({"target_embedding.table.weight": Place("model.shared.weight")} if one_vocabulary else apart),
        **layers(depth, "encoder.blocks", "model.encoder.layers", block),
        **layers(decoder_depth or depth, "decoder.blocks", "model.decoder.layers", block | listening),
        "head.bias": Place("final_logits_bias"),
    }


def pegasus(depth: int, decoder_depth: int | None = None) -> Mapping:
    """`PegasusForConditionalGeneration`: Marian's names, norms before the sub-layers and one more after the last."""
    return {
        **marian(depth, decoder_depth),
        **norm("encoder.final_norm", "model.encoder.layer_norm"),
        **norm("decoder.final_norm", "model.decoder.layer_norm"),
    }


def t5_attention(ours: str, theirs: str) -> Mapping:
    """One attention of T5 with its norm."""
    maps = part(ours, theirs, attention("q k v o", bias=False))
    return maps | norm(f"around_{ours}.norm", f"{theirs.rpartition('.')[0]}.layer_norm", shift=False)


def t5_feedforward(theirs: str, *, gated: bool) -> Mapping:
    """The feed-forward part of T5 with its norm."""
    names = {"gate": "wi_0", "up": "wi_1", "down": "wo"} if gated else {"up": "wi", "down": "wo"}
    maps = union(linear(our, f"DenseReluDense.{their}", bias=False) for our, their in names.items())
    scale = norm("around_feedforward.norm", f"{theirs}.layer_norm", shift=False)
    return part("feedforward", theirs, maps) | scale


def t5(depth: int, decoder_depth: int | None = None, *, gated: bool, tied: bool = True) -> Mapping:
    """`T5ForConditionalGeneration`: no biases, and one table of distances for each stack, kept in its first layer."""
    listens = t5_attention("attention", "layer.0.SelfAttention")
    reads = listens | t5_feedforward("layer.1", gated=gated)
    writes = listens | t5_attention("cross", "layer.1.EncDecAttention") | t5_feedforward("layer.2", gated=gated)
    distances = Place("block.0.layer.0.SelfAttention.relative_attention_bias.weight")
    shared = {"positions.0.table": distances, **norm("final_norm", "final_layer_norm", shift=False)}
    return {
        "target_embedding.table.weight": Place("shared.weight"),
        **part("encoder", "encoder", shared | layers(depth, "blocks", "block", reads)),
        **part("decoder", "decoder", shared | layers(decoder_depth or depth, "blocks", "block", writes)),
        **({} if tied else linear("head.linear", "lm_head", bias=False)),
    }


def llama(depth: int, *, tied: bool = False, attention_bias: bool = False, mlp_bias: bool = False) -> Mapping:
    """`LlamaForCausalLM`, usually with an output layer of its own and without biases."""
    block = {
        **norm("around_attention.norm", "input_layernorm", shift=False),
        **part("attention", "self_attn", attention("q_proj k_proj v_proj o_proj", bias=attention_bias)),
        **norm("around_feedforward.norm", "post_attention_layernorm", shift=False),
        **linear("feedforward.gate", "mlp.gate_proj", bias=mlp_bias),
        **linear("feedforward.up", "mlp.up_proj", bias=mlp_bias),
        **linear("feedforward.down", "mlp.down_proj", bias=mlp_bias),
    }
    return {
        "embedding.table.weight": Place("model.embed_tokens.weight"),
        **layers(depth, "stack.blocks", "model.layers", block),
        **norm("stack.final_norm", "model.norm", shift=False),
        **({} if tied else linear("head.linear", "lm_head", bias=False)),
    }


def bloom(depth: int, heads: int) -> Mapping:
    """`BloomForCausalLM`, which keeps query, key and value of each head together."""
    thirds = fused("weight", "bias", lambda third, tensor: tensor.unflatten(0, (heads, 3, -1))[:, third])
    block = {
        **norm("around_attention.norm", "input_layernorm"),
        **part("attention", "self_attention.query_key_value", thirds),
        **linear("attention.output", "self_attention.dense"),
        **norm("around_feedforward.norm", "post_attention_layernorm"),
        **linear("feedforward.up", "mlp.dense_h_to_4h"),
        **linear("feedforward.down", "mlp.dense_4h_to_h"),
    }
    return {
        "embedding.table.weight": Place("transformer.word_embeddings.weight"),
        **norm("stack.input_norm", "transformer.word_embeddings_layernorm"),
        **layers(depth, "stack.blocks", "transformer.h", block),
        **norm("stack.final_norm", "transformer.ln_f"),
    }


def vit(depth: int) -> Mapping:
    """`ViTForImageClassification`, whose map of patches is a convolution."""
    block = {
        **norm("around_attention.norm", "layernorm_before"),
        **part("attention", "attention", attention("q_proj k_proj v_proj o_proj")),
        **norm("around_feedforward.norm", "layernorm_after"),
        **linear("feedforward.up", "mlp.fc1"),
        **linear("feedforward.down", "mlp.fc2"),
    }
    return {
        **linear("embedding", "vit.embeddings.patch_embeddings.projection"),
        "class_token": Place("vit.embeddings.cls_token"),
        "stack.positions.0.table.weight": Place("vit.embeddings.position_embeddings"),
        **layers(depth, "stack.blocks", "vit.layers", block),
        **norm("stack.final_norm", "vit.layernorm"),
        **linear("head.linear", "classifier"),
    }
