"""What is never translated inside a sentence: placeholders, addresses, entities.

PLACEHOLDER finds %s %(name)s %1$d {name} {0:.2f} {{ name }} ${x} {n, plural, one {…}} {% if %}, URLs, mail addresses.
"""

import re
from collections import Counter
from collections.abc import Sequence

PLACEHOLDER = re.compile(
    r"""
      %%
    | %\([^()\s]+\)[-+#0]*[\d.]*[a-zA-Z]                                 # %(name)s
    | %(?:\d+\$)?[-+#0]*(?:\*|\d+)?(?:\.(?:\*|\d+))?(?:hh|h|ll|l|L|q|j|z|t)?[diouxXeEfFgGaAcCsSpn@]\b(?!-)
    | %L?\d{1,2}                                                         # Qt
    | \{\{.{0,200}?\}\} | \{%.{0,200}?%\}                                            # templates
    | \{\s*\w+\s*,(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}                 # ICU plural and select
    | [$\#]?\{\s*[^{}\s]*\s*\}
    | (?:https?|ftps?|file|ssh|git|wss?)://[^\s<>"'`]*[^\s<>"'`.,;:!?)\]}]
    | \b(?:www\.|mailto:)[^\s<>"'`]*[^\s<>"'`.,;:!?)\]}]
    | \b[\w.+-]{0,63}\w@\w[\w-]*(?:\.[\w-]+)*\.[A-Za-z]{2,}\b
    | &(?:\#\d+|\#x[\da-fA-F]+|[A-Za-z]\w*);
    """,
    re.VERBOSE,
)
MARKUP = re.compile(r"<(/?)([A-Za-z][\w.:-]*)(?:\s[^<>]*)?(/?)>")
"""A tag that is written as text, as in messages of programs."""
UNNUMBERED = re.compile(r"%[^(\d%][^$]*|%|\{\s*\}")
"""Placeholders that are filled in their order."""


def survive(source: Sequence[str], output: str) -> bool:
    """Whether an output has exactly the placeholders of its source, those without name or number in their order."""
    present = PLACEHOLDER.findall(output)
    in_order = [[one for one in ones if UNNUMBERED.fullmatch(one)] for ones in (source, present)]
    return Counter(source) == Counter(present) and in_order[0] == in_order[1]
