"""A run watched on a terminal of 80 columns: no line is wider, results and progress do not mix."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

from small_runs import translation, write_recipe


def on_a_terminal(words: list[str], columns: int = 80) -> tuple[int, list[str]]:
    """Exit code of a command, and every line that the terminal was given, frames of the live line among them."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    environment |= {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", "LC_ALL": "C.UTF-8"}
    process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    data = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        if not part:
            break
        data += part
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "\n", data.decode())
    return process.wait(), [line for line in re.split(r"[\r\n]+", text) if line.strip()]


def test_training_fits_the_terminal_and_says_how_to_go_on(tmp_path: Path):
    recipe = write_recipe(tmp_path, translation(40, save_every=10))
    code, lines = on_a_terminal([sys.executable, "-m", "regard", "train", str(recipe), "--out", str(tmp_path / "run")])
    assert code == 0, lines
    fixed = [line for line in lines if str(tmp_path) not in line]  # a path is as long as it is
    assert max(map(len, fixed)) <= 80
    said = "\n".join(lines)
    for part in ("validation: loss", "best so far", "trivial baseline, each token by its", "go on with:"):
        assert part in said
    assert any("━" in line or "─" in line for line in lines), "there was a bar"
