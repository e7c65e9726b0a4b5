"""This module has the base of operators whose parameters are those of a job (`lakecore.jobs.definitions`).

An operator names the definition of its job. Its constructor takes the parameters of the definition, and all
of them are templated; so a parameter that is added to the definition needs no edit here. Airflow inspects
the signature of the constructor (mapped tasks, `default_args`), therefore each class gets a constructor
with a signature of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, ClassVar

from lakecore.errors import InvalidInputError
from lakecore.jobs.definitions.parameter import DeclaredParameter, parameters_by_name
from lakecore.jobs.definitions.table_job import Definition, Safety
from lakecore_airflow.hooks import LakeHook
from lakecore_airflow.secrets import LakeTask
from lakecore_airflow.tasks.window import run_started_ms

if TYPE_CHECKING:
    from airflow.sdk import Context

__all__ = ["JobTask", "check_word", "flag", "parameters_of"]


def parameters_of(definition: type[Definition]) -> dict[str, DeclaredParameter]:
    """Return the parameters of a job and of its safety settings, by the names that operators use."""
    safe = any(field.name == "safety" for field in fields(definition))
    return parameters_by_name(definition) | (parameters_by_name(Safety) if safe else {})


class JobTask(LakeTask):
    """An operator that runs a job; it has the parameters of the job, `settings` and `lake_conn_id`."""

    definition: ClassVar[type[Definition]]
    """This is the definition of the job."""
    settings: ClassVar[Mapping[str, Any]] = {}
    """The parameters of the task that are none of its job, with their defaults; they are templated, too."""

    words: ClassVar[Mapping[str, Sequence[str]]] = {}
    """These are the words that parameters among `settings` may be."""

    without: ClassVar[Sequence[str]] = ()
    """These are the parameters of the job that the task does not take."""
    required: ClassVar[Sequence[str]] = ()
    """These are the parameters that the constructor requires, beside `table`. What else a job needs is
    missed when it runs, because it may be a template that renders to an empty text.
    """

    template_fields: Sequence[str] = ("lake_conn_id",)
    lake_conn_id: str

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if hasattr(cls, "definition"):
            names = cls._defaults()
            cls.template_fields = tuple(names)
            # mypy takes an assignment for a mistake
            setattr(cls, "__init__", _constructor(names))  # noqa: B010

    def __init__(self, **kwargs: Any) -> None:
        values = {name: kwargs.pop(name, default) for name, default in self._defaults().items()}
        super().__init__(**kwargs)
        self._check_words(values)
        for name, value in values.items():
            setattr(self, name, value)  # `dry_run` in place of a method of BaseOperator that nothing calls

    def _check_words(self, values: Mapping[str, Any]) -> None:
        """Refuse a word that a parameter does not know when the DAG file is read, not when the task runs.
        Templates and outputs of other tasks are checked when it runs. Raises InvalidInputError.
        """
        declared = {name: one.choices for name, one in self._parameters().items() if one.choices}
        words = {name: [word.value for word in choices] for name, choices in declared.items()}
        for name, allowed in {**words, **self.words}.items():
            check_word(self.task_id, name, values.get(name), allowed)

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """Return the parameters of the constructor with their defaults; MISSING for a required one."""
        table = any(field.name == "table" and field.default is MISSING for field in fields(cls.definition))
        values = {
            name: None if one.user_default is MISSING and name not in cls.required else one.user_default
            for name, one in cls._parameters().items()
        }
        first = {"table": MISSING} if table else {}
        return {**first, **values, **cls.settings, "lake_conn_id": LakeHook.default_conn_name}

    @classmethod
    def _parameters(cls) -> dict[str, DeclaredParameter]:
        return {name: one for name, one in parameters_of(cls.definition).items() if name not in cls.without}

    def parameter_values(self) -> dict[str, Any]:
        """Return the parameters of the job by name, as users wrote them."""
        return {name: getattr(self, name) for name in self._parameters()}

    def job_fields(self, context: Context) -> dict[str, Any]:
        """Return the fields of the job that parameters of the task give. Raises InvalidInputError."""
        from lakecore.clock import SystemClock
        from lakecore.jobs.definitions.values import fields_of

        table = {"table": self.table} if hasattr(self, "table") else {}
        return table | fields_of(
            self.definition, self.parameter_values(), run_started_ms(context, SystemClock())
        )


def _constructor(defaults: Mapping[str, Any]) -> Callable[..., None]:
    """Build a constructor that takes the parameters by name."""

    def init(self: JobTask, **kwargs: Any) -> None:
        JobTask.__init__(self, **kwargs)

    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter(name, kind, default=inspect.Parameter.empty if default is MISSING else default)
        for name, default in defaults.items()
    ]
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    rest = inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)
    setattr(init, "__signature__", inspect.Signature([this, *parameters, rest]))  # noqa: B010 - mypy knows none
    return init


def check_word(task_id: str, name: str, value: Any, words: Sequence[str]) -> None:
    """Raise InvalidInputError for a literal that is none of the words. A template and an empty text are
    checked when the task runs.
    """
    if isinstance(value, str) and value and not set("{}") & set(value) and value not in words:
        raise InvalidInputError(f"task {task_id}: {name}={value!r}: use one of {', '.join(words)}")


def flag(name: str, value: Any) -> bool:
    """Parse a boolean as a template renders it; an empty text is false. Raises InvalidInputError."""
    from lakecore.jobs.definitions.values import is_given, parse_flag

    return is_given(value) and parse_flag(name, value)
