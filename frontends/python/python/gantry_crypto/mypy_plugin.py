"""A plugin that tells mypy about `gantry` of polars' expressions: `plugins = ["gantry_crypto.mypy_plugin"]` in its settings."""

from __future__ import annotations

from collections.abc import Callable

from mypy.nodes import MDEF, MypyFile, SymbolTableNode, TypeInfo, Var
from mypy.plugin import ClassDefContext, Plugin
from mypy.types import Instance

MODULE, CLASS = "gantry_crypto.polars", "GantryExpressions"
EXPRESSION = "polars.expr.expr.Expr"


class GantryPlugin(Plugin):
    """Adds the namespace to the class, as polars does at run time."""

    def get_additional_deps(self, file: MypyFile) -> list[tuple[int, str, int]]:
        return [(10, MODULE, -1)] if file.fullname == EXPRESSION.rpartition(".")[0] else []

    def get_customize_class_mro_hook(self, fullname: str) -> Callable[[ClassDefContext], None] | None:
        return add_namespace if fullname == EXPRESSION else None


def add_namespace(context: ClassDefContext) -> None:
    module = context.api.modules.get(MODULE)  # type: ignore[attr-defined]
    found = module and module.names.get(CLASS)
    if not found or not isinstance(found.node, TypeInfo):
        return
    namespace = Var("gantry", Instance(found.node, []))
    namespace.info = context.cls.info
    namespace._fullname = f"{EXPRESSION}.gantry"
    context.cls.info.names["gantry"] = SymbolTableNode(MDEF, namespace)


def plugin(version: str) -> type[Plugin]:
    return GantryPlugin
