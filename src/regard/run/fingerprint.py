"""What a checkpoint keeps of all that it was trained with: recipe, examples, vocabularies, labels."""

from collections.abc import Mapping
from typing import Any

from regard.config import Config
from regard.data.content import tree_sha256
from regard.data.store import Store
from regard.errors import ConfigError, RunError
from regard.tasks import Lexicon
from regard.tasks.base import LABELS_FILE
from regard.train.checkpoint import Checkpoint

KEY = "fingerprint"
"""Where the state of a checkpoint has it."""


class ExamplesFingerprint(Config):
    """The examples of a split."""

    examples: int
    sha256: str


class Fingerprint(Config):
    """All that the weights of a checkpoint depend on, named by contents and not by place."""

    recipe: dict[str, Any]
    """The recipe in force, so that a change can be named."""
    data: dict[str, ExamplesFingerprint]
    """The examples of each split that training reads."""
    tokenizers: dict[str, str]
    """The identity of each field's tokenizer."""
    labels: str
    """SHA-256 of the labels, in their order."""

    @classmethod
    def of(cls, recipe: Config, lexicon: Lexicon, splits: Mapping[str, Store]) -> "Fingerprint":
        """Of a run as it is now."""
        data = {name: ExamplesFingerprint(**store.fingerprint) for name, store in splits.items()}
        return cls(recipe=recipe.tree(), data=data, tokenizers=identities(lexicon), labels=labels_sha256(lexicon))

    @classmethod
    def saved(cls, checkpoint: Checkpoint) -> "Fingerprint | None":
        """Of a checkpoint; None where it was written before there were any, or by an import."""
        tree = checkpoint.state.get(KEY)
        if tree is None:
            return None
        try:
            return cls.from_tree(tree)
        except ConfigError as error:
            raise RunError(
                f"the fingerprint of the checkpoint of step {checkpoint.step} is damaged ({error})"
            ) from None

    def vocabulary_changes(self, lexicon: Lexicon) -> list[str]:
        """The files of vocabularies and labels that are not those of the checkpoint."""
        tokenizers = "tokenizer.json" if len(set(self.tokenizers.values())) == 1 else "tokenizer.*.json"
        changed = [(tokenizers, self.tokenizers != identities(lexicon))]
        changed.append((LABELS_FILE, self.labels != labels_sha256(lexicon)))
        return [name for name, differs in changed if differs]

    def data_changes(self, splits: Mapping[str, Store]) -> list[str]:
        """The splits that hold other examples than those of the checkpoint."""
        now = {name: ExamplesFingerprint(**store.fingerprint) for name, store in splits.items()}
        both = [(name, self.data[name], now[name]) for name in now if name in self.data]
        return [f"data.{name} ({_counts(old, new)})" for name, old, new in both if old != new]


def identities(lexicon: Lexicon) -> dict[str, str]:
    """The identity of each field's tokenizer."""
    return {name: tokenizer.identity for name, tokenizer in lexicon.tokenizers.items()}


def labels_sha256(lexicon: Lexicon) -> str:
    """SHA-256 of the labels, in their order."""
    return tree_sha256({"labels": list(lexicon.labels)})


def _counts(old: ExamplesFingerprint, new: ExamplesFingerprint) -> str:
    if old.examples == new.examples:
        return "other examples"
    return f"{old.examples:,} examples, now {new.examples:,}"
