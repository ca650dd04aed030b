"""Processes whose clocks a test sets: a library, loaded before all others, adds to what the system's clocks say."""

import contextlib
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

COMPILER: Final = shutil.which("cc") or shutil.which("gcc")
_SOURCE: Final = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

/* Seconds to add to CLOCK_REALTIME, CLOCK_BOOTTIME and CLOCK_MONOTONIC. */
static volatile long *shift;

__attribute__((constructor)) static void find_shift(void) {
    int file = open(getenv("CLOCK_SHIFT"), O_RDONLY);
    shift = mmap(NULL, 3 * sizeof(long), PROT_READ, MAP_SHARED, file, 0);
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    static int (*ask)(clockid_t, struct timespec *);
    if (!ask) ask = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = ask(clock, at);
    if (failed) return failed;
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) at->tv_sec += shift[0];
    if (clock == CLOCK_BOOTTIME) at->tv_sec += shift[1];
    if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE) at->tv_sec += shift[2];
    return 0;
}

int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


class ShiftedClock:
    """The clocks of all processes that were started with its `environment`."""

    def __init__(self, folder: Path) -> None:
        """Compiles the library into a folder. Its clocks are the system's at first."""
        source, library, self._shift = folder / "clock.c", folder / "clock.so", folder / "shift"
        source.write_text(_SOURCE)
        assert COMPILER is not None
        subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        self._seconds = [0, 0, 0]
        self._shift.write_bytes(struct.pack("3l", *self._seconds))
        self.environment = {"LD_PRELOAD": str(library), "CLOCK_SHIFT": str(self._shift)}

    def set_wall_clock(self, by: int) -> None:
        """Sets the wall clock ahead by seconds, as an administrator would."""
        self._add(by, 0, 0)

    def sleep(self, by: int) -> None:
        """Lets the machine have slept for seconds: the monotonic clock stood still."""
        self._add(by, by, 0)

    def pass_time(self, by: int) -> None:
        """Lets seconds have passed by all clocks."""
        self._add(by, by, by)

    def _add(self, *by: int) -> None:
        self._seconds = [seconds + more for seconds, more in zip(self._seconds, by, strict=True)]
        with contextlib.closing(os.fdopen(os.open(self._shift, os.O_WRONLY), "wb", buffering=0)) as file:
            file.write(struct.pack("3l", *self._seconds))
