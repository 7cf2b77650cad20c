"""Joblib's Dask backend, which also says when a worker has died."""

from collections.abc import Callable
from typing import Any

__all__ = ["dask_backend"]


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
