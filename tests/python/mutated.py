# SPDX-License-Identifier: MIT
"""What the fuzz targets of C are, for the programs in Python: a corpus, and changes of it that are the same each time."""
from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence

from binding import TOP


VALUE = re.compile(rb'(?:"[^"\n]*"|[\w.+-]+)(?P<name>\s*[:=])?')


def mutated(corpus: str, words: Sequence[bytes], count: int) -> Iterator[bytes]:
    """The texts of a corpus of tests/fuzz, and so many with up to four changes, of a value or of any bytes."""
    texts = [file.read_bytes() for file in sorted((TOP / "tests" / "fuzz" / "corpus" / corpus).iterdir())]
    yield from texts
    choose = random.Random(1)
    words = [*words, *(found[0] for text in texts for found in VALUE.finditer(text) if not found["name"])]
    for _ in range(count):
        text = choose.choice(texts)
        for _ in range(choose.randint(1, 4)):
            start = choose.randrange(len(text) + 1)
            end = start + choose.randrange(12)
            new = choose.choice((b"", choose.choice(words), bytes([choose.randrange(256)]), 2 * text[start:end]))
            values = [found.span() for found in VALUE.finditer(text) if not found["name"]]
            if values and choose.randrange(8):
                (start, end), new = choose.choice(values), choose.choice(words)
            text = text[:start] + new + text[end:]
        yield text
