"""Workers: tasks are done by joblib, in this process, in several, in threads or on a Dask cluster."""

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

__all__ = [
    "WorkerDiedError",
    "Workers",
    "dask_backend",
    "opened",
]


def dask_backend(client: Any, wait_seconds: float) -> Any:
    """Return joblib's backend for a client of Dask, which waits for so many seconds until there is a worker.

    Joblib waits for ever for a task that Dask has given up, because it took several workers down: Dask's error reaches the
    future of the task, but nobody is called back. Here somebody is.
    """
    from joblib._dask import DaskDistributedBackend

    class Backend(DaskDistributedBackend):  # type: ignore[misc]
        def effective_n_jobs(self, n_jobs: int) -> int:
            # For one of them joblib would not ask the cluster at all, and work here.
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

# How long we wait for a scheduler to answer.
CONNECT_SECONDS = 10

# How long we wait for a cluster to start a worker in the place of one that died.
WAIT_SECONDS = 60

# Enough that no worker waits for its next task, and not so many that results come late.
PRE_DISPATCH = "2 * n_jobs"


class WorkerDiedError(Exception):
    """A process of a worker was killed, and took what it did along."""


@dataclass(frozen=True)
class Workers:
    """Who does the work: how many there are, the backend of joblib, and the errors by which it says that one died."""

    jobs: int
    configured: Callable[[], AbstractContextManager[Any]]
    deaths: tuple[type[Exception], ...] = (BrokenProcessPool,)

    def answers(self, tasks: Iterator[Task], context: Context) -> Generator[Answer, None, None]:
        """Yield what comes of tasks, each as soon as it is there, in no order."""
        with self.configured():
            parallel = Parallel(
                n_jobs=self.jobs, return_as="generator_unordered", batch_size=1, pre_dispatch=PRE_DISPATCH
            )
            results = parallel(delayed(perform)(task, context) for task in tasks)
        try:
            for answer in results:  # noqa: UP028 - "yield from" would close them outside of what follows
                yield answer
        except self.deaths as error:
            raise WorkerDiedError from error
        finally:
            with counted_warnings():  # of how many tasks are cancelled, which is what was asked for
                results.close()

    def alone(self, task: Training | UnitTask, context: Context) -> Answer:
        """Do one task while nothing else runs; if its worker dies again, it was the task."""
        try:
            with self.configured():
                # One worker of joblib would be this process itself.
                answers: list[Answer] = Parallel(n_jobs=2)([delayed(perform)(task, context)])
            return answers[0]
        except self.deaths:
            message = f"{task.subject} failed: its process was killed, perhaps for want of memory."
            return Answer(task, FAILED, message=message)


@contextmanager
def opened(backend: str, jobs: int, scheduler: str | None = None) -> Iterator[Workers]:
    """Return a context with workers.

    Parameters
    ----------
    backend : str
        ``"loky"`` for processes, ``"threading"``, or ``"dask"``.
    jobs : int
        How many, -1 for one on each processor; Dask has as many as its cluster.
    scheduler : str, optional
        Address of the scheduler of Dask; the client of this process if absent.
    """
    if backend not in BACKENDS:
        raise StudyError(f"there is no backend {backend!r}; choose one of {', '.join(BACKENDS)}.")
    if jobs != -1 and not is_whole(jobs, 1):
        raise StudyError(
            f"jobs must be a whole number of at least 1, or -1 for all processors, not {jobs!r}."
        )
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
    """Return how many processors this process may use."""
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
                "there is no Dask cluster to run on; give the address of its scheduler, such as tcp://host:8786."
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
            raise StudyError("the Dask cluster has no worker; start some and run again.")
        yield Workers(
            jobs, lambda: parallel_config(backend=dask_backend(client, WAIT_SECONDS)), (dask.KilledWorker,)
        )
    except (TimeoutError, dask.comm.CommClosedError, dask.client.FutureCancelledError) as error:
        raise StudyError(
            "the Dask cluster has gone, or has lost all its workers; start it and run again: what is finished is kept."
        ) from error
    finally:
        if ours:
            client.close()
