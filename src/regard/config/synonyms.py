"""What other programs and papers call our settings and values. None is accepted; each leads to the name used here.

lr: unknown setting; that is train.schedule.lr here
model.position: unknown kind 'rope'; that is 'rotary' here
"""

from collections.abc import Collection, Iterable

_SETTINGS = {
    "seed": "random_seed manual_seed",
    "task.smoothing": "label_smoothing label_smoothing_factor",
    "task.consistency": "r_drop rdrop",
    "task.masking": "mlm_probability mask_prob",
    "data.train": "train_file train_data training_data train_path dataset",
    "data.valid": "valid_file validation_file valid_data validation_data dev_data val_data eval_data dev",
    "data.test": "test_file test_data test_path",
    "data.folder": "data_dir data_path dataset_dir",
    "data.max_length": "max_len max_seq_len max_seq_length max_sequence_length seq_len sequence_length truncation "
    "max_source_length max_position_embeddings",
    "data.batching": "packing bucketing group_by_length",
    "data.batching.context": "block_size context_length context_size n_ctx bptt",
    "tokenizer.size": "vocab_size vocabulary_size n_vocab num_merges bpe_merges",
    "tokenizer.lowercase": "lower do_lower_case uncased",
    "tokenizer.dropout": "bpe_dropout",
    "model": "architecture arch model_type network",
    "model.width": "d_model dmodel hidden_size hidden_dim n_embd embed_dim embedding_dim emb_dim dim model_dim units",
    "model.depth": "n_layers num_layers n_layer layers num_hidden_layers n_blocks encoder_layers num_encoder_layers",
    "model.decoder_depth": "decoder_layers num_decoder_layers",
    "model.heads": "n_heads num_heads n_head nhead num_attention_heads attention_heads encoder_attention_heads",
    "model.feedforward": "ffn mlp ff feed_forward",
    "model.feedforward.hidden": "ffn_dim d_ff dff ff_size ffn_size dim_feedforward intermediate_size "
    "feedforward_dim mlp_dim encoder_ffn_dim",
    "model.feedforward.activation": "activation hidden_act activation_function act",
    "model.feedforward.experts": "num_experts n_experts num_local_experts",
    "model.attention": "attn attention_type self_attention",
    "model.attention.kv_heads": "n_kv_heads num_kv_heads num_key_value_heads gqa mqa",
    "model.attention.head_width": "head_dim d_head d_k d_kv",
    "model.attention.value_width": "d_v value_dim v_head_dim",
    "model.attention.reach": "sliding_window window_size attention_window",
    "model.position": "positional_encoding position_encoding positional_embedding position_embedding pos_emb pos_enc "
    "position_embedding_type",
    "model.position.theta": "rope_theta rotary_base",
    "model.norm": "normalization normalisation norm_type",
    "model.norm.epsilon": "layer_norm_eps rms_norm_eps norm_eps layernorm_epsilon",
    "model.norm_place": "norm_first pre_norm post_norm prenorm postnorm pre_ln post_ln",
    "model.dropout": "dropout_rate dropout_prob p_dropout pdrop hidden_dropout_prob resid_pdrop",
    "model.dropout.attention": "attention_dropout attn_dropout attn_pdrop attention_probs_dropout_prob",
    "model.dropout.layer": "layerdrop layer_drop stochastic_depth drop_path",
    "model.embedding.share": "tie_embeddings tie_weights tie_word_embeddings tied_embeddings weight_tying "
    "share_embeddings",
    "model.patch": "patch_size",
    "model.image": "image_size img_size",
    "model.channels": "num_channels in_channels",
    "model.head.pooling": "pool pooler cls_token_pooling",
    "model.initialise": "init initializer initialization initializer_range init_std",
    "model.preset": "pretrained_config model_name",
    "model.from": "from_pretrained pretrained init_from model_name_or_path load_from finetune_from",
    "train.tokens_per_batch": "batch_size batch train_batch_size per_device_train_batch_size batch_tokens max_tokens",
    "train.accumulate": "gradient_accumulation_steps accum_steps grad_accum accumulate_grad_batches update_freq",
    "train.optimiser": "optimizer optim",
    "train.optimiser.weight_decay": "weight_decay wd l2",
    "train.optimiser.betas": "betas adam_betas beta1 beta2 adam_beta1 adam_beta2",
    "train.optimiser.epsilon": "eps adam_epsilon adam_eps",
    "train.optimiser.momentum": "momentum",
    "train.schedule": "scheduler lr_scheduler lr_scheduler_type lr_schedule decay",
    "train.schedule.lr": "lr learning_rate max_lr peak_lr base_lr step_size",
    "train.schedule.warmup": "warmup warmup_steps num_warmup_steps warmup_updates warmup_iters",
    "train.schedule.floor": "min_lr final_lr lr_end end_learning_rate",
    "train.clip": "grad_clip gradient_clip gradient_clip_val clip_norm max_grad_norm clip_grad_norm",
    "train.precision": "fp16 bf16 amp mixed_precision dtype half fp32 autocast",
    "train.compile": "torch_compile",
    "train.device": "gpu cuda cpu",
    "train.parallel": "ddp fsdp strategy data_parallel distributed",
    "train.activation_checkpointing": "gradient_checkpointing",
    "train.steps": "max_steps num_steps total_steps n_steps train_steps iterations max_iters iters updates max_update",
    "train.epochs": "epochs num_epochs n_epochs max_epochs num_train_epochs max_epoch",
    "train.minutes": "max_time time_limit hours max_minutes",
    "train.save_every": "checkpoint checkpoint_every save_steps save_interval checkpointing_steps",
    "train.valid_every": "eval_steps eval_every eval_interval validate_every validation_interval val_check_interval",
    "train.log_every": "logging_steps log_interval",
    "train.keep": "save_total_limit keep_checkpoints",
    "train.patience": "early_stopping early_stop early_stopping_patience",
    "train.best": "metric_for_best_model monitor",
    "train.average": "checkpoint_averaging average_checkpoints",
    "train.moving_average": "ema ema_decay polyak swa",
    "train.track": "wandb tensorboard logger report_to",
    "start.freeze": "freeze frozen",
    "start.layer_rate": "layerwise_lr_decay llrd",
    "search": "decoding decoding_strategy generation",
    "search.size": "num_beams beam_size beams beam beam_width",
    "search.temperature": "temperature temp",
    "search.top_k": "topk",
    "search.top_p": "topp nucleus",
    "search.length_penalty": "alpha_length lenpen",
    "search.max_length": "max_new_tokens max_decode_length",
    "search.no_repeat_ngram": "no_repeat_ngram_size",
}
SETTINGS = {word: path for path, words in _SETTINGS.items() for word in words.split()}
"""The setting that each word means, where it is used as a name."""

MOST_SHOWN = 3  # settings of one name
NOTES = {
    "model.attention.kind=full": "by fused kernels where they fit",
    "train.tokens_per_batch": "in tokens, not in examples",
    "search.size": "of kind 'beam'",
    "search.temperature": "of kind 'sample'",
    "model.from": "a run's folder",
}
"""What else must be said about some of them."""

_VALUES = {
    "model.kind=encoder-decoder": "transformer seq2seq encoder_decoder t5 bart marian vanilla_transformer",
    "model.kind=decoder": "gpt gpt2 gpt3 llama decoder_only causal autoregressive",
    "model.kind=encoder": "bert roberta encoder_only bidirectional",
    "model.kind=vision": "vit vision_transformer deit",
    "model.kind=lstm-seq2seq": "rnn_seq2seq luong bahdanau",
    "model.kind=recurrent": "lstm gru rnn",
    "model.position.kind=rotary": "rope rotary_embedding",
    "model.position.kind=sinusoidal": "sinusoid sin sincos sine fixed sinusoidal_encoding",
    "model.position.kind=learned": "learnable absolute trainable learned_absolute",
    "model.position.kind=relative": "shaw relative_position",
    "model.position.kind=alibi": "alibi",
    "model.norm.kind=layer": "layernorm layer_norm ln",
    "model.norm.kind=rms": "rmsnorm rms_norm",
    "model.feedforward.kind=gated": "swiglu geglu glu gated_mlp",
    "model.feedforward.kind=experts": "moe mixture_of_experts sparse_moe switch",
    "model.feedforward.kind=plain": "relu_ffn standard",
    "model.feedforward.activation=silu": "swish",
    "model.attention.kind=full": "flash flash_attention flash_attn sdpa xformers dense softmax vanilla",
    "model.attention.kind=window": "sliding longformer",
    "model.norm_place=before": "pre preln",
    "model.norm_place=after": "post postln",
    "tokenizer.kind=unigram": "sentencepiece spm",
    "tokenizer.kind=bpe": "byte_pair_encoding wordpiece subword",
    "tokenizer.kind=char": "character chars characters",
    "tokenizer.kind=word": "words whitespace",
    "tokenizer.kind=byte": "bytes byte_level",
    "train.optimiser.kind=adamw": "adam adam_w",
    "train.schedule.kind=noam": "inverse_sqrt inverse_square_root inv_sqrt",
    "train.schedule.kind=cosine": "cos cosine_annealing cosine_decay",
    "train.schedule.kind=constant": "none fixed flat",
    "train.precision=bfloat16": "bf16 bfloat",
    "train.precision=float32": "fp32 full f32",
    "train.device=cuda": "gpu",
    "search.kind=beam": "beam_search",
    "search.kind=greedy": "argmax greedy_search",
    "search.kind=sample": "sampling random nucleus top_p top_k multinomial",
    "task.kind=translation": "mt nmt translate seq2seq text2text",
    "task.kind=classification": "classify classifier text_classification sentiment sequence_classification",
    "task.kind=language_model": "lm causal_lm clm text_generation language_modeling language_modelling",
    "task.kind=masked_language_model": "mlm masked_lm fill_mask",
    "task.kind=summarisation": "summarization summarize summary",
    "task.kind=tagging": "pos pos_tagging token_classification sequence_labeling tagger",
    "task.kind=image_classification": "vision_classification image",
    "task.kind=image_description": "captioning image_captioning image_to_text",
}
VALUES: dict[str, list[tuple[str, str]]] = {}
"""The settings and values that each word may mean, where it is used as a value."""
for _setting, _words in _VALUES.items():
    for _word in _words.split():
        VALUES.setdefault(_word, []).append((_setting.partition("=")[0], _setting.partition("=")[2]))

PATHS = sorted({*SETTINGS.values(), *(path for path, _ in (pair for pairs in VALUES.values() for pair in pairs))})
"""The settings that have other names elsewhere: those that people look for most."""
TAKEN_OUT = ("model.preset", "model.from")
"""Settings that stand in no config: they are resolved before it is made."""


def plain(word: str) -> str:
    """A word as the tables spell it."""
    return word.strip().casefold().replace("-", "_").replace(" ", "_")


def meant_setting(name: str, paths: Collection[str]) -> str:
    """The end of a sentence about an unknown setting; empty where no setting among `paths` is meant."""
    path = SETTINGS.get(plain(name))
    if path is not None and (path in paths or path in TAKEN_OUT):
        return f"that is {path} here{f' ({NOTES[path]})' if path in NOTES else ''}"
    pairs = [(path, value) for path, value in VALUES.get(plain(name), []) if path in paths]
    if pairs:
        return f"that is {' or '.join(f'{path}={value}{_note(path, value)}' for path, value in pairs)} here"
    same = [path for path in paths if path.rpartition(".")[2] == plain(name)]
    highest = sorted(path for path in same if path.count(".") == min(other.count(".") for other in same))
    return f"that is {' or '.join(highest)} here" if 0 < len(highest) <= MOST_SHOWN else ""


def _note(path: str, value: str) -> str:
    return f" ({NOTES[f'{path}={value}']})" if f"{path}={value}" in NOTES else ""


def meant_value(word: object, allowed: Iterable[str]) -> str:
    """The value among those `allowed` that a word stands for; empty where there is none."""
    meanings = {value for _, value in VALUES.get(plain(word), [])} if isinstance(word, str) else ()
    return next((value for value in allowed if value in meanings), "")
