"""Images over HTTP: in base64 only, within limits, and no file of the server is ever read for a client."""

import base64
import io
from pathlib import Path

import httpx
import pytest
from PIL import Image
from served_runs import guarded, serving

from regard import api
from regard.run.recipe import resolve_recipe
from regard.train.watching import Watcher


class Quiet(Watcher):
    def step(self, line, progress): ...

    def measured(self, line): ...

    def say(self, sentence): ...


def encoded(colour: str, size: tuple[int, int] = (8, 8)) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", size, colour).save(stream, "PNG")
    return stream.getvalue()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pictures")
    rows = ["image\tcaption"]
    for colour in ("red", "blue"):
        (folder / "train" / colour).mkdir(parents=True)
        for number in range(12):
            file = folder / "train" / colour / f"{number}.png"
            file.write_bytes(encoded(colour))
            rows.append(f"{file}\tsomething {colour}")
    (folder / "captions.tsv").write_text("\n".join(rows) + "\n")
    model = {"image": 8, "patch": 4, "width": 16, "depth": 1, "heads": 2}
    train = {"steps": 4, "save_every": 4, "tokens_per_batch": 256, "precision": "float32", "device": "cpu"}
    labelled = {"images": str(folder / "train")}
    captions = {"file": str(folder / "captions.tsv"), "image": "image", "target": "caption"}
    trees = {
        "colours": {"task": "image_classification", "data": {"train": labelled, "valid": labelled},
                    "model": {"kind": "vision", **model}, "train": train},
        "words": {"task": "image_description", "data": {"train": captions, "valid": captions}, "tokenizer": "word",
                  "model": {"kind": "vision-encoder-decoder", **model}, "train": train},
    }  # fmt: skip
    for name, tree in trees.items():
        api.train(resolve_recipe(tree), out=folder / name, watcher=Quiet())
    return {name: folder / name for name in trees}


def test_images_are_answered_as_on_the_command_line(folders: dict[str, Path]):
    image = encoded("red")
    given = {"image": base64.b64encode(image).decode()}
    with serving(*guarded(folders)) as address, httpx.Client(base_url=address, timeout=60) as client:
        classified = client.post("/images", json=given).json()
        described = client.post("/images", json={**given, "model": "words"}).json()
    probabilities = api.load(folders["colours"], "cpu").classify([image])[0]  # type: ignore[list-item]
    assert classified["probabilities"] == pytest.approx(probabilities, abs=1e-5)
    assert classified["label"] == max(classified["probabilities"], key=classified["probabilities"].get)
    assert described["text"] == api.translate(folders["words"], [image])[0]  # type: ignore[list-item]


def test_no_name_of_a_file_is_followed_and_limits_hold(folders: dict[str, Path]):
    file = str(next((folders["colours"].parent / "train").rglob("*.png")))
    huge = base64.b64encode(encoded("red", (4096, 4096))).decode()
    with serving(*guarded(folders)) as address, httpx.Client(base_url=address, timeout=60) as client:
        asked = [
            client.post("/attention", json={"text": file}),
            client.post("/classify", json={"text": file, "model": "colours"}),
            client.post("/translate", json={"q": file, "source": "auto", "target": "target"}),
            client.post("/images", json={"image": file}),
            client.post("/images", json={"image": base64.b64encode(file.encode()).decode()}),
            client.post("/images", json={"image": base64.b64encode(encoded("red", (9, 8))).decode()}),
            client.get("/"),
        ]
        too_large = client.post("/images", json={"image": huge})
    assert [one.status_code for one in asked] == [400] * len(asked)
    assert "reads images" in asked[0].json()["error"]
    assert "not base64" in asked[3].json()["error"]
    assert "no image" in asked[4].json()["error"]
    assert "the model takes 8 × 8" in asked[5].json()["error"]
    assert too_large.status_code == 413
