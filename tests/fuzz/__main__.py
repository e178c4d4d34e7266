"""Random command lines of regard, on random data, with random recipes: exit 0, 1 or 2, and what a success made is read.

python tests/fuzz 1234                         the session of one seed, with its files and all that it writes
python tests/fuzz --cases 20000 --processes 16 many sessions; a summary, and each finding with its seed
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    from fuzz_workers import main

    sys.exit(main())
