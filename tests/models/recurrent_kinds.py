"""One small config of each recurrent kind and of each of its turns, for the tests that hold for all of them."""

from regard.models.recurrent import (
    DeepAttConfig,
    GnmtConfig,
    RecurrentDecoderConfig,
    RecurrentEncoderConfig,
    Seq2SeqConfig,
)

VOCAB = 19
EXPERTS = {"experts": 4, "chosen": 2, "hidden": 8, "noise": True, "balance": 0.0, "importance": 0.1, "load": 0.1}
SMALL = {"width": 16, "depth": 2, "dropout": 0.0}
SINGLES = {
    "rnn": {"cell": "rnn"},
    "gru": {"cell": "gru"},
    "lstm": {"cell": "lstm"},
    "deep": {"depth": 4, "residual": True},
    "shallow": {"depth": 1},
    "narrow-tokens": {"embedding_width": 12},
    "untied": {"embedding_width": 12, "embedding": {"share": "none"}},
    "factor": {"embedding": {"factor": 6}},
    "experts": {"experts": EXPERTS},
    "transform": {"head": {"kind": "vocabulary", "transform": "tanh"}},
    "uniform": {"initialise": "uniform"},
}
DECODERS = {name: RecurrentDecoderConfig(**{**SMALL, **turn}) for name, turn in SINGLES.items()}
ENCODERS = {name: RecurrentEncoderConfig(**{**SMALL, **turn}) for name, turn in SINGLES.items()}
TRANSLATORS = {
    "dot": Seq2SeqConfig(**SMALL),
    "general": Seq2SeqConfig(**SMALL, attention="general"),
    "additive": Seq2SeqConfig(**SMALL, attention={"kind": "additive", "hidden": 6}),
    "luong": Seq2SeqConfig(**SMALL, embedding_width=12, readout="tanh", embedding={"share": "all"}),
    "sentence-vector": Seq2SeqConfig(**SMALL, attention="none"),
    "sutskever": Seq2SeqConfig(**SMALL, attention="none", reading="backward", initialise="uniform"),
    "forward": Seq2SeqConfig(**SMALL, reading="forward"),
    "gru": Seq2SeqConfig(**SMALL, cell="gru", decoder_depth=3),
    "rnn": Seq2SeqConfig(**SMALL, cell="rnn", decoder_depth=1, embedding={"share": "none"}),
    "gnmt": GnmtConfig(**{**SMALL, "depth": 3}),
    "gnmt-dot": GnmtConfig(
        **{**SMALL, "depth": 4}, decoder_depth=2, attention="dot", embedding_width=12, embedding={"share": "inputs"}
    ),
    "gnmt-experts": GnmtConfig(**{**SMALL, "depth": 3}, decoder_depth=2, experts=EXPERTS),
    "deep-att": DeepAttConfig(**{**SMALL, "depth": 3}),
    "deep-att-general": DeepAttConfig(**SMALL, decoder_depth=4, attention="general"),
}
