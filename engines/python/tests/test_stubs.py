"""The type stubs name what is there."""

import ast
import pathlib

import isorb

STUBS = ast.parse(pathlib.Path(isorb.__file__).with_name("__init__.pyi").read_text(encoding="utf-8"))


def names(body):
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.AnnAssign):
            yield node.target.id
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets)


def test_the_stubs_have_the_package_and_no_more():
    assert set(isorb.__all__) <= set(names(STUBS.body)), set(isorb.__all__) - set(names(STUBS.body))
    for name in names(STUBS.body):
        assert name.startswith("_") or hasattr(isorb, name), name


def test_the_stubs_have_the_members_of_each_class():
    for node in STUBS.body:
        if not isinstance(node, ast.ClassDef) or node.name not in isorb.__all__:
            continue
        stub, there = set(names(node.body)), getattr(isorb, node.name)
        own = {name for name in vars(there) if not hasattr(there.__base__, name)}
        public = {name for name in own if not name.startswith("_")}
        assert public <= stub, f"{node.name}: {public - stub}"
        # Not the attributes: they are of the instance.
        methods = {item.name for item in node.body if isinstance(item, ast.FunctionDef)} - {"__getattr__"}
        missing = {name for name in methods if not hasattr(there, name)}
        assert not missing, f"{node.name}: {missing}"
