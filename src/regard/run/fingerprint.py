"""What a checkpoint keeps of all that it was trained with: recipe, examples, vocabularies, labels."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from regard.config import Config
from regard.config.values import Tree, is_table
from regard.data.content_hash import tree_sha256
from regard.data.store import Store
from regard.errors import ConfigError, RunError
from regard.files.run_folder import LABELS_FILE, TOKENIZER_FILE, field_tokenizer_file
from regard.run.recipe import Recipe
from regard.tasks import Vocabularies
from regard.train.checkpoint import Checkpoint

KEY = "fingerprint"
"""Where the state of a checkpoint has it."""


class ExamplesFingerprint(Config):
    examples: int
    sha256: str


class Fingerprint(Config):
    """All that the weights of a checkpoint depend on, named by contents and not by place."""

    recipe: Tree
    """The recipe in force, so that a change can be named."""
    data: dict[str, ExamplesFingerprint]
    """The examples of each split that training reads."""
    tokenizers: dict[str, str]
    """The identity of each field's tokenizer."""
    labels: str
    """SHA-256 of the labels, in their order."""

    @classmethod
    def of(cls, recipe: Recipe, vocabularies: Vocabularies, splits: Mapping[str, Store]) -> "Fingerprint":
        data = {name: ExamplesFingerprint(**store.fingerprint) for name, store in splits.items()}
        return cls(
            recipe=recipe.tree(), data=data, tokenizers=identities(vocabularies), labels=labels_sha256(vocabularies)
        )

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

    def recipe_of(self, folder: Path) -> Recipe:
        """The recipe in force when the checkpoint was written; settings that are new since have their defaults."""
        try:
            return Recipe.from_tree(self.recipe)
        except ConfigError as error:
            raise RunError(f"{folder}: its checkpoint is of another version of regard ({error})") from None

    def vocabulary_changes(self, vocabularies: Vocabularies) -> list[str]:
        """The files of vocabularies and labels that are not those of the checkpoint."""
        tokenizers = TOKENIZER_FILE if len(set(self.tokenizers.values())) == 1 else field_tokenizer_file("*")
        changed = [(tokenizers, self.tokenizers != identities(vocabularies))]
        changed.append((LABELS_FILE, self.labels != labels_sha256(vocabularies)))
        return [name for name, differs in changed if differs]

    def data_changes(self, splits: Mapping[str, Store]) -> list[str]:
        """The splits that hold other examples than those of the checkpoint."""
        now = {name: ExamplesFingerprint(**store.fingerprint) for name, store in splits.items()}
        both = [(name, self.data[name], now[name]) for name in now if name in self.data]
        return [f"data.{name} ({_counts(old, new)})" for name, old, new in both if old != new]


def changed_settings(old: Recipe, new: Recipe) -> Iterator[tuple[str, object, object]]:
    """The settings in which two recipes differ, with both values; None stands for one that is not given."""
    one, other = dict(_leaves(old.tree())), dict(_leaves(new.tree()))
    for path in dict.fromkeys([*one, *other]):
        before, after = one.get(path), other.get(path)
        moved = False
        if path == "start.run" and before and after:
            moved = Path(str(before)).resolve() == Path(str(after)).resolve()
        elif path == "plugins" and before and after:  # the same files, wherever they are
            moved = [plugin.sha256 for plugin in old.plugins] == [plugin.sha256 for plugin in new.plugins]
        if before != after and not moved and path != "defaults":
            yield path, before, after


def _leaves(tree: Tree, above: str = "") -> Iterator[tuple[str, object]]:
    for key, value in tree.items():
        if is_table(value):
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def shown(value: object) -> str:
    text = "not given" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def identities(vocabularies: Vocabularies) -> dict[str, str]:
    return {name: tokenizer.identity for name, tokenizer in vocabularies.tokenizers.items()}


def labels_sha256(vocabularies: Vocabularies) -> str:
    return tree_sha256({"labels": list(vocabularies.labels)})


def _counts(old: ExamplesFingerprint, new: ExamplesFingerprint) -> str:
    if old.examples == new.examples:
        return "other examples"
    return f"{old.examples:,} examples, now {new.examples:,}"
