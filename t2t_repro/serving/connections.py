"""A client's connection: what uvicorn's waits for without end ends here, and makes room."""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol


class Connection(H11Protocol):
    """HTTP with a client who is given a time to ask, and to take the answer, and then cut off.

    Beyond the limit of connections the one that has kept the server waiting longest is cut off for
    a new one; where all are being answered, the new one is refused.

    Args:
        wait_s: seconds that the client is waited for.
        most: connections at once.
        full: answers who comes when that many are being answered.
        protocol: arguments of uvicorn's.
    """

    def __init__(self, *, wait_s: float, most: int, full: Any, **protocol: Any):
        super().__init__(**protocol)
        self._most, self._full = most, full
        self._wait_s = wait_s
        self._deadline: asyncio.TimerHandle | None = None
        self._since = self.loop.time()  # when the client was last given an answer

    @property
    def keeps_waiting(self) -> bool:
        """Whether the next move is the client's."""
        return self._stalled or self.cycle.more_body

    @property
    def _stalled(self) -> bool:
        """Whether that is so outside of the application, which itself waits for a body."""
        answering = self.cycle is not None and not self.cycle.response_complete
        return not answering or self.flow.write_paused

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()
        if len(self.connections) > self._most:
            others = cast("set[Connection]", self.connections - {self})
            if waiting := [other for other in others if other.keeps_waiting]:
                min(waiting, key=lambda other: other._since).cut_off()
            else:
                self.app = self._full

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        self._since = self.loop.time()
        self._unwatch()
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def cut_off(self) -> None:
        """Ends the connection at once, whatever is still to be read or written."""
        self.connections.discard(self)
        self.transport.abort()

    def _watch(self) -> None:
        if not self._stalled:
            self._unwatch()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self._wait_s, self.cut_off)

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
