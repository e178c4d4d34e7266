"""The command line as a user meets it: help without torch, settings explained, mistakes in one sentence."""

import json
import subprocess
import sys

import pytest


def regard(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, "-m", "regard", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_help_does_not_load_torch():
    script = (
        "import sys; sys.argv = ['regard', '--help']\n"
        "from regard.cli import app\n"
        "try: app()\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'numpy', 'pydantic', 'tokenizers', 'matplotlib'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "config" in done.stdout


def test_version():
    assert regard("--version").stdout.startswith("regard ")


def test_config_explains_a_family():
    text = regard("config", "--explain", "model.position").stdout
    assert 'model.position.kind = "rotary"' in text
    assert "Base period; larger reaches further." in text


def test_config_checks_a_recipe(tmp_path):
    file = tmp_path / "recipe.toml"
    file.write_text('task = "language_model"\n[model]\nkind = "decoder"\nposition = "alibi"\n')
    tree = json.loads(regard("config", "--check", str(file), "model.width=128", "--json").stdout)
    assert (tree["model"]["width"], tree["model"]["position"]) == (128, {"kind": "alibi"})


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["config", "model.widht=3"], "regard: model.widht: unknown setting; did you mean 'width'?"),
        (["config", "--check", "nothing.toml"], "regard: nothing.toml: no such file"),
    ],
)
def test_mistakes_end_in_one_sentence_and_code_2(arguments: list[str], sentence: str):
    assert regard(*arguments, code=2).stderr.strip() == sentence


def test_schema_is_json():
    assert json.loads(regard("config", "--schema").stdout)["properties"]["model"]
