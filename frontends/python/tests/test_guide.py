"""Every example of the guide prints the output in the guide."""

import doctest
import pathlib
import re


ROOT = pathlib.Path(__file__).resolve().parents[3]


def test_examples_of_the_guide_print_the_output_in_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/src/guide-python.md").read_text()
    names, count = {}, 0
    for match in re.finditer(r"^```pycon\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        line = page[: match.start()].count("\n") + 1
        test = doctest.DocTestParser().get_doctest(match[1], names, f"guide-python.md:{line}", None, line)
        report = []
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=report.append, clear_globs=False)
        assert report == [], "".join(report)
        names, count = test.globs, count + len(test.examples)
    assert count >= 10


def test_the_example_of_the_readme_runs():
    readme = (ROOT / "frontends/python/README.md").read_text()
    [example] = re.findall(r"^```python\n(.*?)^```$", readme, re.DOTALL | re.MULTILINE)
    exec(compile(example, "README.md", "exec"), {})
