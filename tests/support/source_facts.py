"""Facts read from the program's own text without importing it: log events, exit statuses, variables, error codes.

Nothing is found by the name of a file or an internal class, so the facts stay equal when code moves.
"""

import ast
import re
import signal
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).parents[2]

LEVELS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
BINDERS = frozenset({"bound_contextvars", "bind_contextvars"})
ENDINGS = frozenset({"sys.exit", "os._exit", "SystemExit", "Exit", "typer.Exit"})
VARIABLE = re.compile(r"(DAIRA|OTEL)_[A-Z_]+")
WEBHOOK_EVENT = re.compile(r"(job|webhook)\.[a-z_]+")

Function = ast.FunctionDef | ast.AsyncFunctionDef
Value = str | int
Node = TypeVar("Node", bound=ast.AST)


class Source:
    """Every module of the packages that the wheel holds."""

    def __init__(self) -> None:
        packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
        paths = [path for name in packages["packages"] for path in sorted((ROOT / name).rglob("*.py"))]
        self._modules = {path: ast.parse(path.read_text()) for path in paths}
        self._parents: dict[ast.AST, ast.AST] = {}
        self._functions: dict[str, list[Function]] = defaultdict(list)
        self._calls: dict[str, list[ast.Call]] = defaultdict(list)
        self._constants: dict[str, list[tuple[ast.AST, ast.expr]]] = defaultdict(list)
        """By name: the module or class that each stands in, and what it is set to."""
        for node in self._nodes():
            for child in ast.iter_child_nodes(node):
                self._parents[child] = node
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    self._functions[node.name].append(node)
                case ast.Call():
                    self._calls[_last_name(node.func)].append(node)
                case ast.Module() | ast.ClassDef():
                    for name, value in _assignments(node.body):
                        self._constants[name].append((node, value))
                case _:
                    pass

    def log_events(self) -> set[tuple[str, str, tuple[str, ...]]]:
        """Event, level and the sorted names of its fields."""
        return {
            (str(event), level, tuple(sorted(self._fields(call))))
            for level in LEVELS
            for call in self._calls[level]
            if isinstance(call.func, ast.Attribute) and _last_name(call.func.value) in self._loggers() and call.args
            for event in self.values(call.args[0]) or {"?"}
        }

    def bound_fields(self) -> set[str]:
        """Fields that every event has within a request or a job."""
        telemetry = [module for path, module in self._modules.items() if path.stem == "telemetry"]
        binders = BINDERS | {
            node.name
            for module in telemetry
            for node in module.body
            if isinstance(node, ast.FunctionDef) and node.args.kwarg is not None
        }
        return {field for name in binders for call in self._calls[name] for field in self._fields(call)}

    def exit_statuses(self) -> set[int]:
        """Numbers that the program, or a process that it starts of itself, ends with."""
        ends = [call for calls in self._calls.values() for call in calls if ast.unparse(call.func) in ENDINGS]
        return {
            value for call in ends for each in call.args[:1] for value in self.values(each) if isinstance(value, int)
        }

    def variables(self) -> set[str]:
        """Names in the environment that the program reads, or looks for."""
        named = {text for text in self._texts() if VARIABLE.fullmatch(text)}
        return named | {str(value) for key in self._environment_keys() for value in self.values(key)}

    def webhook_events(self) -> set[str]:
        return {text for text in self._texts() if WEBHOOK_EVENT.fullmatch(text)}

    def error_codes(self) -> set[str]:
        """Every `code` that the program writes: of problems, of jobs, of its own client."""
        given = [call_code for calls in self._calls.values() for call in calls for call_code in self._codes(call)]
        given += [value for of, value in self._constants["code"] if isinstance(of, ast.ClassDef)]
        return {value for each in given for value in self.values(each) if isinstance(value, str)}

    def values(self, node: ast.expr, seen: frozenset[ast.AST] = frozenset()) -> set[Value]:
        """What an expression may come to, as far as its text says so."""
        if node in seen:
            return set()
        seen |= {node}
        match node:
            case ast.Constant(value=str() | int() as value) if not isinstance(value, bool):
                return {value}
            case ast.JoinedStr(values=parts):
                return {"".join(str(part.value) if isinstance(part, ast.Constant) else "*" for part in parts)}
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                sides = self.values(left, seen), self.values(right, seen)
                return {a + b for a in sides[0] for b in sides[1] if isinstance(a, int) and isinstance(b, int)}
            case ast.Attribute(value=ast.Name(id="signal"), attr=name):
                return {int(getattr(signal, name))}
            case _:
                return {value for each in self._meant(node) for value in self.values(each, seen)}

    def _meant(self, node: ast.expr) -> Iterable[ast.expr]:
        """Expressions whose value this one may have."""
        meant: Iterable[ast.expr] = []
        match node:
            case ast.IfExp(body=body, orelse=other):
                meant = [body, other]
            case ast.Tuple(elts=[first, *_]):
                meant = [first]
            case ast.Starred(value=value) | ast.Await(value=value) | ast.Subscript(value=value):
                meant = [value]
            case ast.Dict(values=values):
                meant = values
            case ast.Call(func=ast.Name(id=name)):
                made = self._nearest(node, self._functions[name])
                returns = [each for one in made for each in ast.walk(one) if isinstance(each, ast.Return)]
                meant = [each.value for each in returns if each.value is not None]
            case ast.Name(id=name):
                meant = self._named(node, name)
            case ast.Attribute(attr=name) if name.isupper():
                meant = [value for _, value in self._constants[name]]
            case _:
                pass
        return meant

    def _named(self, node: ast.Name, name: str) -> list[ast.expr]:
        function = self._function_of(node)
        if function is not None:
            if name in _parameters(function):
                calls = self._nearest(node, self._calls[function.name])
                return [value for call in calls for value in _argument(call, function, name)]
            local = [value for target, value in _assignments(ast.walk(function)) if target == name]
            if local:
                return local
        constants = self._constants[name]
        here = [value for of, value in constants if of is self._module_of(node)]
        return here or [value for _, value in constants]

    def _codes(self, call: ast.Call) -> list[ast.expr]:
        keywords = [keyword.value for keyword in call.keywords if keyword.arg == "code"]
        return keywords + (call.args[:1] if _last_name(call.func) in self._coded() else [])

    def _coded(self) -> set[str]:
        """Classes that are made with a code first."""
        inits = [function for function in self._functions["__init__"] if _parameters(function)[1:2] == ["code"]]
        owners = [self._parents[function] for function in inits]
        return {owner.name for owner in owners if isinstance(owner, ast.ClassDef)}

    def _fields(self, call: ast.Call) -> set[str]:
        named = {keyword.arg for keyword in call.keywords if keyword.arg is not None}
        for keyword in call.keywords:
            if keyword.arg is None:
                named |= self._keys(keyword.value) or {"**"}
        return named

    def _keys(self, node: ast.expr) -> set[str]:
        """Of a dict that is made in the same function, and of what is put into it there."""
        function = self._function_of(node)
        if function is None or not isinstance(node, ast.Name):
            return set()
        made = [value for name, value in _assignments(ast.walk(function)) if name == node.id]
        keys = [key for value in made if isinstance(value, ast.Dict) for key in value.keys if key is not None]
        for each in ast.walk(function):
            match each:
                case ast.Subscript(value=ast.Name(id=name), slice=key, ctx=ast.Store()) if name == node.id:
                    keys.append(key)
                case _:
                    pass
        return {str(value) for key in keys for value in self.values(key)}

    def _loggers(self) -> set[str]:
        made = [(name, value) for name, constants in self._constants.items() for _, value in constants]
        return {name for name, value in made if isinstance(value, ast.Call) and _last_name(value.func) == "get_logger"}

    def _environment_keys(self) -> Iterator[ast.expr]:
        for node in self._nodes():
            match node:
                case ast.Subscript(value=ast.Attribute(attr="environ"), slice=key):
                    yield key
                case ast.Call(func=ast.Attribute(value=ast.Attribute(attr="environ")), args=[key, *_]):
                    yield key
                case ast.Call(func=ast.Attribute(attr="getenv"), args=[key, *_]):
                    yield key
                case _:
                    pass

    def _texts(self) -> Iterator[str]:
        for node in self._nodes():
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value

    def _nodes(self) -> Iterator[ast.AST]:
        for module in self._modules.values():
            yield from ast.walk(module)

    def _nearest(self, node: ast.AST, found: list[Node]) -> list[Node]:
        """Those of the same module, or else all."""
        here = [each for each in found if self._module_of(each) is self._module_of(node)]
        return here or found

    def _module_of(self, node: ast.AST) -> ast.AST:
        while node in self._parents:
            node = self._parents[node]
        return node

    def _function_of(self, node: ast.AST) -> Function | None:
        while node in self._parents:
            node = self._parents[node]
            if isinstance(node, Function):
                return node
        return None


def _assignments(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=value):
                yield from ((target.id, value) for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value
            case _:
                pass


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _parameters(function: Function) -> list[str]:
    given = function.args
    return [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def _argument(call: ast.Call, function: Function, name: str) -> list[ast.expr]:
    by_name = [keyword.value for keyword in call.keywords if keyword.arg == name]
    at = [each for each in _parameters(function) if each not in {"self", "cls"}].index(name)
    return by_name or call.args[at : at + 1]
