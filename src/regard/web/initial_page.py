"""What a page is about before anyone has asked: the lectures' sentence, or an image that the run folder holds."""

import base64
import io
from dataclasses import dataclass

from PIL import Image

from regard.data.images.store import PIXELS, Album
from regard.errors import DataError
from regard.tasks.images import ImageTask
from regard.web.registry import Served

FIRST_TEXT = "The animal did not cross the street because it was too tired."


@dataclass(frozen=True)
class FirstImage:
    """An encoded image, and what the page calls it."""

    name: str
    data: bytes

    def tree(self) -> dict[str, str]:
        """As the page keeps it, to send it again."""
        return {"name": self.name, "data": base64.b64encode(self.data).decode()}


def first_image(served: Served) -> FirstImage | None:
    """The first image that training left in the run folder, of its smallest split; no other folder is looked into."""
    run = served.run
    assert isinstance(run.task, ImageTask)
    albums = sorted(run.folder.glob(f"cache/*/{PIXELS}"), key=lambda file: file.stat().st_size)
    for file in albums:
        try:
            album = Album(file.parent, file.parent.name, run.task.config.canvas(run.recipe.model))
        except DataError:  # left by another version, or damaged: training would make it anew
            continue
        if len(album):
            grid = album.pixels[0]
            stream = io.BytesIO()
            Image.fromarray(grid if grid.shape[2] == 3 else grid[..., 0]).save(stream, "PNG")
            return FirstImage("An image of the run's own data", stream.getvalue())
    return None
