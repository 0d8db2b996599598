"""Text from outside as people see it: nothing in it hides, turns round or imitates other text.

For names, keys and values in tables, errors and logs. Files and JSON contain the text itself. `visible.js` of the
console does the same for its pages; a test compares the two.
"""

from __future__ import annotations

import re
import unicodedata

_WITHOUT_INK = re.compile("[\u115f\u1160\u2800\u3164\uffa0]")  # which Unicode counts as letters and symbols
_ALIKE = re.compile("[\u0131\u0250-\u02af\u0370-\u058f\u13a0-\u13ff\u2c80-\u2cff\ua4d0-\ua4ff\uab70-\uabbf]")
"""Letters of other alphabets and of phonetic ones, many of which look like those of ASCII."""
MOST_ALIKE = 3


def visible(text: str, kept: str = "") -> str:
    """Return the text with an escape for each character that shows nothing of its own, such as U+202E or a newline.

    These are control and format characters, separators and spaces other than U+0020, and what is not assigned. kept:
    those that stay.
    """
    if text.isprintable() and not _WITHOUT_INK.search(text):
        return text
    return "".join(_escaped(one) if _shows_nothing(one) and one not in kept else one for one in text)


def visible_name(name: str) -> str:
    """Return a name likewise, with spaces at its ends escaped; letters that look like those of ASCII are listed."""
    inner = name.strip(" ")
    if not inner:
        return _escaped(" ") * len(name)
    before, after = name.split(inner, 1) if inner != name else ("", "")
    shown = f"{_escaped(' ') * len(before)}{visible(inner)}{_escaped(' ') * len(after)}"
    alike = sorted({one for one in inner if _ALIKE.match(one) or _is_another_form(one)})
    if not alike:
        return shown
    listed = [f"U+{ord(one):04X}" for one in alike[:MOST_ALIKE]]
    return f"{shown} ({', '.join(listed)}{', ...' if len(alike) > MOST_ALIKE else ''})"


def _shows_nothing(one: str) -> bool:
    return not one.isprintable() or _WITHOUT_INK.match(one) is not None


def _is_another_form(one: str) -> bool:
    """Whether it is another form of ASCII characters, such as a fullwidth letter."""
    return not one.isascii() and one.isprintable() and unicodedata.normalize("NFKC", one).isascii()


def _escaped(one: str) -> str:
    return r"\x20" if one == " " else one.encode("unicode_escape").decode()
