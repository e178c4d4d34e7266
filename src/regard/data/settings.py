"""The `[data]` table of a recipe: where each split lies, and how examples become batches."""

from typing import Literal

from pydantic import Field, PositiveInt

from regard.config import Config, FileName
from regard.data.batches import BatchingConfig
from regard.data.sources import HELD_OUT, DividedSource, SourceConfig
from regard.errors import ConfigError

SPLITS = ("train", "valid", "test")


class DataConfig(Config):
    """Training, validation and test data, and how examples become batches."""

    folder: FileName | None = None
    """Where the names of files start; the recipe's own folder when left out. `regard:examples` is the folder of the
    example data that comes with the program."""
    train: SourceConfig | None = None
    """What the model learns from."""
    valid: SourceConfig | None = None
    """What choices are made on; when left out, a share of the training data is held out for it, `held_out`."""
    held_out: float = Field(HELD_OUT, gt=0, lt=1)
    """Share of the training data that is held out where `valid` is not given."""
    test: SourceConfig | None = None
    """What the finished model is tested on, and never chosen by."""
    max_length: PositiveInt = 256
    """Most tokens of a text while training; longer ones are treated as `overlong` says, and counted."""
    overlong: Literal["skip", "cut"] = "skip"
    """Leave examples out whose text is too long, or cut them at the end."""
    batching: BatchingConfig | None = None
    """How examples share a batch; when left out, the task's usual way."""

    def split(self, name: str) -> SourceConfig:
        """Where a split lies; ConfigError where the recipe does not say."""
        if name not in SPLITS:
            raise ConfigError("data", f"expected one of {', '.join(SPLITS)}, got '{name}'")
        if self.train is not None and self.valid is None and name in ("train", "valid"):
            if self.train.part is not None:
                problem = "needed, since data.train is itself a part; give the validation part too"
                raise ConfigError("data.valid", problem)
            return DividedSource(**dict(self.train), held_out=name == "valid", share=self.held_out)
        source = getattr(self, name)
        if source is None:
            example = f'{name} = {{ source = "{name}.en", target = "{name}.de" }}'
            raise ConfigError(f"data.{name}", f"say where the {name} data lies, such as: {example}")
        return source

    @property
    def holds_out(self) -> bool:
        """Whether the validation data is taken from the training data."""
        return self.train is not None and self.valid is None
