"""Images in the place of texts: what a model that reads patches is given, and how the page draws them."""

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from regard.look.masked import MaskedReader
from regard.look.model_input import Reader, Reading, checked
from regard.look.tokens import Sentence
from regard.models import Patches
from regard.nn.layout import Sequences
from regard.tasks import MaskedLanguageModel, Task
from regard.tasks.images import AnyImage, ImageTask
from regard.text.special_tokens import BOS

CLASS_TOKEN = "<class>"


class PictureReader(Reader):
    """Makes readings of one image: its patches stand where a text has tokens."""

    reads_text = False

    def __init__(self, model: nn.Module, task: ImageTask, image: AnyImage) -> None:
        super().__init__(model, task)
        self.config: Any = model.config
        self.pixels: UInt8[np.ndarray, "height width channels"] = task.read([image], self.config)[0]
        self.images = task.numbers(self.pixels[None], self.device)
        self.patches = patch_sentence(self.config)

    def ids(self, text: str) -> list[int]:
        """The numbers of the patches, whatever the image is called."""
        return self.patches.ids

    def grid(self, ids: Sequence[int]) -> Sequences:
        """The image, as a model that writes about it takes it."""
        return Patches.of(self.images, self.config.patch)

    def pair(self, source: Sequence[int], target: Sequence[int]) -> Reading:
        """The image and what is written about it."""
        written = [BOS, *target]
        arguments = (self.grid(source), self.sequences(checked(written)))
        return Reading("pair", arguments, self.patches, Sentence.of(self.target, written))

    def label(self, ids: Sequence[int]) -> Reading:
        """The image, to be classified."""
        return Reading("label", (self.images,), self.patches, None)

    def extras(self) -> dict[str, Any]:
        """The pixels, for the page to draw."""
        image = torch.from_numpy(self.pixels.copy()).permute(2, 0, 1) / 255
        return {"image": image_tree(image, self.config.patch, getattr(self.config, "class_token", False))}


def reader_for(model: nn.Module, task: Task, text: AnyImage, documents: bool) -> Reader:
    """What reads this input for a task: a text, or an image by its file's name or its bytes."""
    if isinstance(task, ImageTask):
        return PictureReader(model, task, text)
    if isinstance(task, MaskedLanguageModel):
        return MaskedReader(model, task, documents)
    return Reader(model, task, documents)


def patch_sentence(config: Any) -> Sentence:  # noqa: ANN401
    """The patches of an image, row by row, each called by its place; the class token first where there is one."""
    across = config.image // config.patch
    patches = [f"{row + 1},{column + 1}" for row in range(across) for column in range(across)]
    tokens = [CLASS_TOKEN, *patches] if getattr(config, "class_token", False) else patches
    numbers = list(range(len(tokens)))
    return Sentence(numbers, tokens, numbers, tokens)


def image_tree(image: Float[Tensor, "channels height width"], patch: int, class_token: bool) -> dict[str, Any]:
    """The pixels as bytes, red, green and blue by turns, and how they are cut."""
    colours = image.expand(3, -1, -1) if image.shape[0] == 1 else image[:3]
    pixels = (colours.detach().cpu().clamp(0, 1) * 255).round().to(torch.uint8).permute(1, 2, 0).contiguous()
    return {
        "size": image.shape[-1],
        "patch": patch,
        "class_token": class_token,
        "pixels": base64.b64encode(pixels.numpy().tobytes()).decode(),
    }
