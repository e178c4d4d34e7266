"""How runs and languages are named on the command line, and what is said about mistakes."""

import socket
from pathlib import Path

import pytest

from regard.cli.serve import serve
from regard.data.languages import pair_of, parse_pair
from regard.data.sources import SourceConfig
from regard.errors import ConfigError, RunError
from regard.web.app import free_port
from regard.web.prometheus import ServerMetrics
from regard.web.registry import names_of


@pytest.mark.parametrize(
    ("data", "pair"),
    [
        ({"street": "train"}, ("en", "de")),
        ({"source": "train.en.gz", "target": "data/train.de.gz"}, ("en", "de")),
        ({"source": "news-fr.txt", "target": "news-en.txt"}, ("fr", "en")),
        ({"file": "pairs.tsv", "source": "en", "target": "cs"}, ("en", "cs")),
        ({"file": "pairs.tsv", "source": 0, "target": 1}, ("source", "target")),
        ({"hub": "a/b", "split": "train", "source": "translation.de", "target": "translation.fr"}, ("de", "fr")),
    ],
)
def test_languages_are_read_from_the_names_of_the_data(data: dict, pair: tuple[str, str]):
    assert pair_of(SourceConfig.from_tree(data)) == pair


def test_languages_that_are_said():
    assert parse_pair("en-de") == ("en", "de")
    for wrong in ("en", "en-", "-de", "en-../x"):
        with pytest.raises(ConfigError, match="expected two codes such as 'en-de'"):
            parse_pair(wrong)


def test_runs_are_called_as_their_folders_or_as_said(tmp_path: Path):
    for name in ("one", "a=b"):
        (tmp_path / name).mkdir()
    named = names_of([str(tmp_path / "one"), f"best={tmp_path / 'one'}", str(tmp_path / "a=b")])
    assert named == {"one": tmp_path / "one", "best": tmp_path / "one", "a=b": tmp_path / "a=b"}
    with pytest.raises(RunError, match="two runs are called 'one'"):
        names_of([str(tmp_path / "one"), f"one={tmp_path / 'a=b'}"])


def test_a_port_that_is_taken_is_said():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port: cannot listen at 127.0.0.1:{port}"):
            free_port("127.0.0.1", port)
    assert free_port("127.0.0.1", 0) > 0


def test_mistakes_of_the_command_are_sentences():
    with pytest.raises(RunError, match="nothing: no such run folder"):
        serve(["nothing"])
    with pytest.raises(RunError, match="languages: no run called 'other' is served"):
        serve(["nothing"], languages=["other=en-de"])
    with pytest.raises(ConfigError, match=r"api_key: others can reach 0\.0\.0\.0"):
        serve(["nothing"], host="0.0.0.0")


def test_labels_are_escaped_and_counts_exact():
    metrics = ServerMetrics()
    metrics.count("regard_batches_total", {"model": 'a"b\\c\nd'}, 12_345_678)
    assert 'regard_batches_total{model="a\\"b\\\\c\\nd"} 12345678.0\n' in metrics.text()
    metrics.time({"route": "/"}, 0.3)
    assert 'regard_request_seconds_bucket{route="/",le="0.25"} 0.0\n' in metrics.text()
    assert 'regard_request_seconds_bucket{route="/",le="0.5"} 1.0\n' in metrics.text()
