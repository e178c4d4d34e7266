"""Each key of generation_config.json: the library's default, and what an import does with it."""

from regard.export.huggingface.keys import Keys

SPEED = "how the same text is computed"
OUTPUTS = "which further outputs the library returns"
RECORD = "a record of where the file comes from"
DRAFTS = "how a second model drafts tokens; the text is the first model's"

DEFAULTS = {
    "max_length": 20,
    "min_length": 0,
    "do_sample": False,
    "use_cache": True,
    "early_stopping": False,
    "num_beams": 1,
    "temperature": 1.0,
    "top_k": 50,
    "top_p": 1.0,
    "typical_p": 1.0,
    "repetition_penalty": 1.0,
    "length_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "bad_words_ids": None,
    "num_return_sequences": 1,
    "output_scores": False,
    "return_dict_in_generate": False,
    "forced_bos_token_id": None,
    "forced_eos_token_id": None,
    "remove_invalid_values": False,
    "exponential_decay_length_penalty": None,
    "suppress_tokens": None,
    "begin_suppress_tokens": None,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "encoder_repetition_penalty": 1.0,
    "num_assistant_tokens": 20,
    "num_assistant_tokens_schedule": "constant",
    "assistant_confidence_threshold": 0.4,
    "assistant_lookbehind": 10,
    "target_lookbehind": 10,
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
}
"""What the library generates with where a file says nothing; a key that is not here is off."""

TOKENS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")
NOTED = frozenset(
    [
        "early_stopping",
        "typical_p",
        "repetition_penalty",
        "encoder_no_repeat_ngram_size",
        "bad_words_ids",
        "num_return_sequences",
        "exponential_decay_length_penalty",
        "suppress_tokens",
        "begin_suppress_tokens",
        "epsilon_cutoff",
        "eta_cutoff",
        "top_h",
        "encoder_repetition_penalty",
        "num_beam_groups",
        "diversity_penalty",
        "constraints",
        "force_words_ids",
        "sequence_bias",
        "guidance_scale",
        "penalty_alpha",
        "stop_strings",
        "watermarking_config",
        "token_healing",
        "dola_layers",
        "max_time",
        "renormalize_logits",
        "remove_invalid_values",
        "forced_eos_token_id",
    ]
)
"""Settings of the search that regard does not have."""

GENERATION = Keys(
    DEFAULTS,
    frozenset(
        [
            "max_length",
            "max_new_tokens",
            "min_length",
            "min_new_tokens",
            "do_sample",
            "num_beams",
            "temperature",
            "top_k",
            "top_p",
            "min_p",
            "length_penalty",
            "no_repeat_ngram_size",
        ]
    )
    | {*TOKENS},
    {
        **dict.fromkeys(
            [
                "use_cache",
                "cache_implementation",
                "cache_config",
                "max_cache_len",
                "compile_config",
                "disable_compile",
                "low_memory",
                "prefill_chunk_size",
                "continuous_batching_config",
            ],
            SPEED,
        ),
        **dict.fromkeys(
            ["output_attentions", "output_hidden_states", "output_logits", "output_scores", "return_dict_in_generate"],
            OUTPUTS,
        ),
        **dict.fromkeys(
            ("transformers_version", "_from_model_config", "_commit_hash", "_original_object_hash"), RECORD
        ),
        **dict.fromkeys(
            [
                "assistant_confidence_threshold",
                "assistant_early_exit",
                "assistant_ensemble_weight",
                "assistant_lookbehind",
                "is_assistant",
                "max_matching_ngram_size",
                "num_assistant_tokens",
                "num_assistant_tokens_schedule",
                "prompt_lookup_num_tokens",
                "speculation_type",
                "target_lookbehind",
                "use_mtp",
            ],
            DRAFTS,
        ),
    },
    {"forced_bos_token_id": (None,)},
    NOTED,
)
