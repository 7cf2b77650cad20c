"""Workers: run tasks with joblib in this process, in several processes, in threads or on a Dask cluster."""

import os
from collections.abc import Callable, Generator, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from joblib import Parallel, delayed, parallel_config

from calibrant.errors import MissingExtraError, StudyError
from calibrant.options import is_whole
from calibrant.studies.results import FAILED
from calibrant.studies.units import Answer, Context, Task, Training, UnitTask, counted_warnings, perform

__all__ = ["WorkerDiedError", "Workers", "dask_backend", "opened", "processors"]


def dask_backend(client: Any, wait_seconds: float) -> Any:
    """Return joblib's backend for a Dask client; it waits ``wait_seconds`` for a worker.

    If a task kills several workers, Dask gives it up and sets an error on its future, but joblib is not called back and waits
    forever. This backend calls joblib back with the error.
    """
    from joblib._dask import DaskDistributedBackend

    class Backend(DaskDistributedBackend):  # type: ignore[misc]
        def effective_n_jobs(self, n_jobs: int) -> int:
            # With one job, joblib would run tasks here and not on the cluster.
            return int(max(2, super().effective_n_jobs(n_jobs)))

        def submit(self, func: Any, callback: Callable[[Any], None] | None = None) -> Any:
            future = super().submit(func, callback)

            def tell(ended: Any) -> None:
                error = None if ended.cancelled() else ended.exception()
                if error is not None and callback is not None:
                    callback(error)

            future.add_done_callback(tell)
            return future

        def retrieve_result_callback(self, out: Any) -> Any:
            if isinstance(out, BaseException):
                raise out
            return super().retrieve_result_callback(out)

    return Backend(client=client, wait_for_workers_timeout=wait_seconds)


BACKENDS = ("loky", "threading", "dask")

# Timeout for a connection to the scheduler.
CONNECT_SECONDS = 10

# Timeout for the cluster to replace a worker that died.
WAIT_SECONDS = 60

# Enough that no worker runs out of tasks, and few enough that the schedule can adapt.
PRE_DISPATCH = "2 * n_jobs"


class WorkerDiedError(Exception):
    """A worker process was killed while it ran a task."""


@dataclass(frozen=True)
class Workers:
    """Number of workers, the backend of joblib, and the errors by which it reports that one died."""

    jobs: int
    configured: Callable[[], AbstractContextManager[Any]]
    deaths: tuple[type[Exception], ...] = (BrokenProcessPool,)

    def answers(self, tasks: Iterator[Task], context: Context) -> Generator[Answer, None, None]:
        """Yield the results of tasks as they finish, in any order."""
        with self.configured():
            parallel = Parallel(
                n_jobs=self.jobs, return_as="generator_unordered", batch_size=1, pre_dispatch=PRE_DISPATCH
            )
            results = parallel(delayed(perform)(task, context) for task in tasks)
        try:
            for answer in results:  # noqa: UP028 - "yield from" would close the results outside the try block
                yield answer
        except self.deaths as error:
            raise WorkerDiedError from error
        finally:
            with counted_warnings():  # hides that tasks are cancelled, which is intended
                results.close()

    def alone(self, task: Training | UnitTask, context: Context) -> Answer:
        """Run one task while nothing else runs; if its worker dies again, the task is the cause."""
        try:
            with self.configured():
                # With one job, joblib would use this process.
                answers: list[Answer] = Parallel(n_jobs=2)([delayed(perform)(task, context)])
            return answers[0]
        except self.deaths:
            message = f"{task.subject} failed: its process was killed, possibly because it ran out of memory."
            return Answer(task, FAILED, message=message)


@contextmanager
def opened(backend: str, jobs: int, scheduler: str | None = None) -> Iterator[Workers]:
    """Return a context with workers.

    Parameters
    ----------
    backend : str
        ``"loky"`` for processes, ``"threading"``, or ``"dask"``.
    jobs : int
        Number of workers, -1 for one per processor; with Dask it is that of the cluster.
    scheduler : str, optional
        Address of the Dask scheduler; by default the Dask client of this process.
    """
    if backend not in BACKENDS:
        raise StudyError(f"there is no backend {backend!r}; choose one of {', '.join(BACKENDS)}.")
    if jobs != -1 and not is_whole(jobs, 1):
        raise StudyError(f"jobs must be an integer of at least 1, or -1 for all processors, not {jobs!r}.")
    if scheduler is not None and backend != "dask":
        raise StudyError(f'a scheduler is for the backend "dask", not for {backend!r}.')
    if backend == "dask":
        with _dask(scheduler) as workers:
            yield workers
        return
    number = processors() if jobs == -1 else int(jobs)
    if number == 1:
        yield Workers(1, partial(parallel_config, backend="sequential"))
    elif backend == "loky":
        yield Workers(number, partial(parallel_config, backend="loky", inner_max_num_threads=1))
    else:
        yield Workers(number, partial(parallel_config, backend="threading"))


def processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def _dask(scheduler: str | None) -> Iterator[Workers]:
    try:
        from dask import distributed
    except ModuleNotFoundError as error:
        raise MissingExtraError("dask", "dask") from error
    dask: Any = distributed  # without types
    if scheduler is None:
        try:
            client, ours = dask.get_client(), False
        except ValueError:
            raise StudyError(
                "there is no Dask client in this process; give the address of a scheduler, such as tcp://host:8786."
            ) from None
    else:
        try:
            client, ours = dask.Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False), True
        except (OSError, TimeoutError, ValueError) as error:
            raise StudyError(
                f"no Dask scheduler answers at {scheduler}; start one, or give its address."
            ) from error
    try:
        jobs = sum(client.ncores().values())
        if not jobs:
            raise StudyError("the Dask cluster has no workers; start some and run again.")
        yield Workers(
            jobs, lambda: parallel_config(backend=dask_backend(client, WAIT_SECONDS)), (dask.KilledWorker,)
        )
    except (TimeoutError, dask.comm.CommClosedError, dask.client.FutureCancelledError) as error:
        raise StudyError(
            "the Dask cluster or all its workers were lost; restart it and run again: finished units are kept."
        ) from error
    finally:
        if ours:
            client.close()
