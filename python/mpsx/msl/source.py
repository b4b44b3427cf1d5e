"""The class Source: the tokens of preprocessed text with their brackets and positions, and edits of the text."""

import bisect
import copy
import re

from .lexer import CLOSER, LINE_MARKER, tokens

INTEGERS = {"bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "size_t", "unsigned"}
UNROLL_PRAGMA = re.compile(r"^([ \t]*#[ \t]*pragma[ \t]+(?:GCC |clang loop )?unroll(?:_count)?)[ \t]*"
                           r"\(?([^\n]*?)\)?[ \t]*$", re.M)


class MslError(Exception):
    """An error in the user's source. Its text begins with file:line:column."""


class Source:
    """Text and its tokens in parallel lists: `kinds`, `texts`, and `starts`. Edits keep whitespace and line numbers."""

    def __init__(self, text):
        self.text = text
        self.markers = [(m.end() + 1, int(m.group(1)), m.group(2)) for m in LINE_MARKER.finditer(text)]
        self._marker_starts = [m[0] for m in self.markers]
        self.kinds, self.texts, self.starts = [], [], []
        for kind, token, start in tokens(text):
            self.kinds.append(kind)
            self.texts.append(token)
            self.starts.append(start)
        self.match = self._brackets()
        # Names of integer variables. A '<' after such a name is a comparison.
        self.integers = {t for i, t in enumerate(self.texts) if i and self.texts[i - 1] in INTEGERS
                         and self.kinds[i] == "word" and self.texts[i + 1:i + 2] != ["("]
                         and not self._is_template(i)}
        self._replacements = []
        self._insertions = []

    def unedited(self):
        """Return a copy of this source without edits."""
        other = copy.copy(self)
        other._replacements, other._insertions = [], []
        return other

    def __len__(self):
        return len(self.texts)

    def location(self, token):
        """Return the file:line:column of a token in the user's files."""
        offset = self.starts[min(token, len(self.starts) - 1)] if self.starts else 0
        return "{}:{}:{}".format(*self.position(offset))

    def position(self, offset):
        """Return the file, line, and column in the user's files that correspond to an offset in the text."""
        i = bisect.bisect_right(self._marker_starts, offset) - 1
        begin, line, file = self.markers[i] if i >= 0 else (0, 1, "<input>")
        column = offset - self.text.rfind("\n", 0, offset)
        return file, line + self.text.count("\n", begin, offset), column

    def error(self, token, message):
        return MslError(f"{self.location(token)}: error: {message}")

    def _brackets(self):
        """Map every bracket token to its partner."""
        match, stack = {}, []
        for i, t in enumerate(self.texts):
            if self.kinds[i] != "op":
                continue
            if t in CLOSER:
                stack.append(i)
            elif t in ")]}":
                if not stack or CLOSER[self.texts[stack[-1]]] != t:
                    raise self.error(i, f"unmatched '{t}'")
                j = stack.pop()
                match[i], match[j] = j, i
        if stack:
            raise self.error(stack[-1], f"unmatched '{self.texts[stack[-1]]}'")
        return match

    def attribute_end(self, i):
        """Return the last token of the attribute [[…]] that begins at token i, or None."""
        if self.texts[i] != "[" or i + 1 >= len(self) or self.texts[i + 1] != "[":
            return None
        return self.match[i] if self.match[i] == self.match[i + 1] + 1 else None

    def specifier_end(self, i):
        """Return the token after the `__attribute__((…))` or `alignas(…)` at token i, or i itself."""
        if self.texts[i] in ("__attribute__", "alignas") and self.texts[i + 1:i + 2] == ["("]:
            return self.match[i + 1] + 1
        return i

    def _is_template(self, i):
        """Return whether token i names a variable template rather than a template parameter."""
        depth = 0
        while i > 0 and self.texts[i] not in (";", "{", "}"):
            depth += (self.texts[i] == ">") - (self.texts[i] == "<")
            if self.texts[i] == "template":
                return depth == 0
            i -= 1
        return False

    def opens(self, i):
        """Return whether the '<' at token i probably begins template arguments. It does not in `sizeof(T) < 8`."""
        return self.texts[i] == "<" and (self.kinds[i - 1] == "word" and self.texts[i - 1] not in self.integers)

    def angle_end(self, i):
        """Return the '>' that closes the template '<' at token i."""
        depth, j = 0, i
        while j < len(self):
            t = self.texts[j]
            if t in CLOSER:
                j = self.match[j]
            elif j == i or self.opens(j):
                depth += 1
            elif t == ">":
                depth -= 1
                if depth == 0:
                    return j
            elif t in (";", "}"):
                break
            j += 1
        raise self.error(i, "unmatched '<'")

    def angle_begin(self, i):
        """Return the '<' that matches the '>' at token i, or -1."""
        depth = 0
        while i >= 0:
            depth += (self.texts[i] == ">") - (self.texts[i] == "<")
            if depth == 0:
                break
            i -= 1
        return i

    def split(self, begin, end):
        """Return the token ranges between top-level commas in [begin, end)."""
        parts, start, angle, i = [], begin, 0, begin
        while i < end:
            t = self.texts[i]
            if t in CLOSER:
                i = self.match[i]
            elif self.opens(i):
                angle += 1
            elif t == ">":
                angle -= 1
            elif t == "," and angle == 0:
                parts.append((start, i))
                start = i + 1
            i += 1
        if start < end:
            parts.append((start, end))
        return parts

    def span(self, begin, end):
        """Return the text of tokens [begin, end) on one line, without line markers."""
        return "".join(self.spaced(i, self.texts[i], begin) for i in range(begin, end))

    def spaced(self, i, text, begin):
        """Return `text` for token i after a space. Omit the space at `begin` and inside << and >>, which are two
        tokens."""
        shift = i > begin and self.texts[i] in "<>" and self.texts[i - 1] == self.texts[i]
        return text if i == begin or (shift and self.starts[i] == self.starts[i - 1] + 1) else " " + text

    def replace(self, begin, end, new=""):
        """Replace tokens [begin, end). Line numbers do not change, nor do columns if `new` is no longer than the old
        text."""
        self._replacements.append((begin, end, new))

    def wrap(self, begin, end, before, after):
        """Insert text before and after tokens [begin, end), inside any text that was inserted there earlier."""
        self._insertions.append((self.starts[begin], 1, len(self._insertions), before))
        self._insertions.append((self.starts[end - 1] + len(self.texts[end - 1]), 0, -len(self._insertions), after))

    def insert_before(self, token, text):
        """Insert text before a token, ahead of any other text inserted there."""
        self._insertions.append((self.starts[token], 1, -1, text))

    def result(self):
        """Return the edited text, with the preprocessor's line markers as #line directives."""
        out, at = [], 0
        edits = [(self.starts[b], 2, -e, self.starts[e - 1] + len(self.texts[e - 1]), new)
                 for b, e, new in self._replacements]
        edits += [(at, kind, order, at, new) for at, kind, order, new in self._insertions]
        for start, kind, _, stop, new in sorted(edits):  # a longer replacement sorts before a nested one
            if start < at:
                continue  # inside a range that is already replaced
            if kind != 2:
                out += [self.text[at:start], new]
                at = start
                continue
            old = self.text[start:stop]
            kept = LINE_MARKER.findall(old)
            if kept:
                line, file = kept[-1]
                tail = old.count("\n", old.rindex(f'"{file}"'))
                blank = f'\n#line {int(line) + tail - 1} "{file}"\n'
            elif "\n" in old:
                blank = "\n" * old.count("\n")
            else:
                blank = " " * max(0, len(old) - len(new))
            out += [self.text[at:start], new, blank]
            at = stop
        out.append(self.text[at:])
        text = "".join(out)
        if "unroll" in text:
            names = {"full", "enable", "disable", *self.texts}
            text = UNROLL_PRAGMA.sub(lambda m: _unroll_pragma(m, names), text)
        return LINE_MARKER.sub(lambda m: f'#line {m.group(1)} "{m.group(2)}"', text)


def _unroll_pragma(m, names):
    """Drop the count of an unroll pragma if it is a macro. The preprocessor removes the macro's definition, but does
    not expand the macro in the pragma."""
    if names.issuperset(re.findall(r"[A-Za-z_]\w*", m[2])):
        return m[0]
    return "" if "clang" in m[1] else m[1]
