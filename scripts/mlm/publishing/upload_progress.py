"""How much of an upload has left this machine."""

import io
import threading
from pathlib import Path

from mlm.foundations.progress_line import Progress


class UploadProgress:
    """Counts the bytes that are read for sending, and shows them on stderr now and then."""

    def __init__(self, label: str, total: int):
        self._line, self._total, self._done = Progress(label, total, "bytes"), total, 0
        self._lock = threading.Lock()
        #: Off while files are read for their digests.
        self.counting = False

    def add(self, count: int) -> None:
        """`count` bytes more; what is sent a second time counts once."""
        if not self.counting:
            return
        with self._lock:
            self._done = min(self._done + count, self._total)
            self._line.to(self._done)


class CountedFile(io.BufferedReader):
    """A file opened for reading that tells `progress` of every block."""

    def __init__(self, path: Path, progress: UploadProgress):
        super().__init__(io.FileIO(path))
        self._progress = progress

    def read(self, size: int | None = -1) -> bytes:
        """As io.BufferedReader."""
        block = super().read(size)
        self._progress.add(len(block))
        return block
