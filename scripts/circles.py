"""Finds circles among the modules of a crate: siblings that import each other, directly or through others.

Imports are resolved as the compiler does: groups (`use super::{a, b::C}`), paths in code (`crate::a::f()`), globs, and names that a module
imports and re-exports. A module and its descendants may import each other. Tests do not count.
"""

import re
from pathlib import Path

NAME = r"[A-Za-z_]\w*"
# Comments, and literals that may contain paths.
PROSE = re.compile(r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"', re.S)
USE = re.compile(r"\buse\s+([^;]+);")
PATH = re.compile(rf"(?<![\w:])(?:crate|super|self)(?:\s*::\s*{NAME})+")
TEST = re.compile(r"#\[cfg\((?:all\()?test\b[^\n]*\]\s*(?:#\[[^\n]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?mod\s+\w+\s*")


def without_tests(code):
    """Returns the code without test modules."""
    while found := TEST.search(code):
        end = found.end()
        if code[end : end + 1] == "{":
            depth = 0
            while end < len(code):
                depth += {"{": 1, "}": -1}.get(code[end], 0)
                end += 1
                if depth == 0:
                    break
        else:
            end = code.find(";", end) + 1
        code = code[: found.start()] + code[end:]
    return code


def expand(tree, prefix=()):
    """Yields the paths of a use tree, each with the name that it binds."""
    tree = tree.strip()
    if group := re.fullmatch(r"(?:(.*?)::\s*)?\{(.*)\}", tree, re.S):
        prefix += tuple(part.strip() for part in (group[1] or "").split("::") if part.strip())
        depth, begin, inner = 0, 0, group[2] + ","
        for i, letter in enumerate(inner):
            depth += {"{": 1, "}": -1}.get(letter, 0)
            if letter == "," and depth == 0:
                if inner[begin:i].strip():
                    yield from expand(inner[begin:i], prefix)
                begin = i + 1
        return
    path, _, name = (part.strip() for part in re.sub(r"\s+as\s+", "\0", tree).partition("\0"))
    path = prefix + tuple(part.strip() for part in path.split("::") if part.strip())
    if path[-1] == "self":
        path = path[:-1]
    yield path, name or path[-1]


class Crate:
    """The modules of a crate by their paths, `()` for the root."""

    def __init__(self, files):
        """`files`: text by path below `src`."""
        self.code, self.names, self.file = {}, {}, {}
        for path, text in files.items():
            parts = Path(path).with_suffix("").parts
            module = parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts
            self.file[module] = path
            self.code[module] = without_tests(PROSE.sub(" ", text))
        for module, code in self.code.items():
            self.names[module] = {}
            for use in USE.finditer(code):
                for path, name in expand(use[1]):
                    self.names[module].setdefault(name, []).append(path)

    def resolve(self, module, path, seen=frozenset()):
        """Yields the modules that a path refers to, as seen from a module."""
        if (module, path) in seen:
            return
        seen |= {(module, path)}
        here, rest = module, path
        if rest[0] == "crate":
            here, rest = (), rest[1:]
        while rest and rest[0] in ("self", "super"):
            here, rest = here[:-1] if rest[0] == "super" else here, rest[1:]
        if here == module and rest == path and (*module, rest[0]) not in self.code:
            return
        while rest and (*here, rest[0]) in self.code:
            here, rest = (*here, rest[0]), rest[1:]
        if not rest or rest[0] == "*":
            yield here
            return
        handed_on = [target for name in (rest[0],) for target in self.names.get(here, {}).get(name, ())]
        found = [end for target in handed_on for end in self.resolve(here, target + rest[1:], seen)]
        yield from found or [here]

    def imports(self):
        """Yields pairs of modules, of which the first imports the second."""
        for module, code in self.code.items():
            paths = {path for names in self.names[module].values() for path in names}
            paths |= {tuple(part.strip() for part in found[0].split("::")) for found in PATH.finditer(USE.sub(" ", code))}
            for path in paths:
                for target in self.resolve(module, path):
                    if target in self.code:
                        yield module, target

    def circles(self):
        """Returns the sets of sibling modules that reach each other, each sorted."""
        arrows = {}
        for source, target in self.imports():
            common = 0
            while common < min(len(source), len(target)) and source[common] == target[common]:
                common += 1
            if common < min(len(source), len(target)):
                arrows.setdefault(source[: common + 1], set()).add(target[: common + 1])
        reached = {}
        for start in arrows:
            todo, reached[start] = list(arrows[start]), set()
            while todo:
                here = todo.pop()
                if here not in reached[start]:
                    reached[start].add(here)
                    todo.extend(arrows.get(here, ()))
        return sorted({tuple(sorted(b for b in ends if a in reached.get(b, ()))) for a, ends in reached.items() if a in ends})


def of_folder(source):
    """Returns the circles of the crate in a folder `src`, as lists of modules."""
    files = {str(path.relative_to(source)): path.read_text() for path in sorted(source.rglob("*.rs"))}
    files = {path: text for path, text in files.items() if not re.search(r"(^|/)(tests|races)(/|\.rs$)", path)}
    return [["::".join(module) for module in circle] for circle in Crate(files).circles()]


def self_test():
    sources = {
        "lib.rs": "mod a;\nmod b;\nmod folder;\npub use folder::Deep;\n",
        "a.rs": "use crate::b::{self, B};\n",
        "b.rs": "// use crate::a;\nconst TEXT: &str = \"crate::a::A\";\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
        "folder/mod.rs": "mod deep;\nmod low;\nuse deep::Deep;\npub(super) use low::{Low, lower};\n",
        "folder/deep.rs": "use super::{Helper, low};\n",
        "folder/low.rs": "use crate::b::B;\n",
    }
    assert Crate(sources).circles() == [], Crate(sources).circles()
    # Each of these imports closes a circle.
    wrong = [
        ("b.rs", "use super::a;"),
        ("b.rs", "use super::{folder, a};"),
        ("b.rs", "use crate::{a::A, folder};"),
        ("b.rs", "fn f() { crate::a::f() }"),
        ("b.rs", "use crate::folder::deep::Deep;"),
        ("b.rs", "use crate::Deep;"),
        ("folder/low.rs", "use super::deep;"),
        ("folder/low.rs", "use super::{Deep as Other};"),
        ("folder/low.rs", "use super::deep::*;"),
        ("folder/low.rs", "impl super::deep::Trait for Low {}"),
    ]
    for path, text in wrong:
        assert len(Crate(sources | {path: sources[path] + text}).circles()) == 1, (path, text)
    return len(wrong)
