"""Fixtures for the simt driver's tests, based on simt_library.py."""

import hashlib
import os
from pathlib import Path

import pytest
from simt_library import Driver, build_once, compile_kernels, compile_native, load_native, missing_compiler

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory):
    """Return a temporary folder shared by all xdist workers."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def native(shared_folder):
    folder = shared_folder / "simt-native"
    return load_native(build_once(folder, "native.so", lambda: compile_native(folder / "native.so")))


@pytest.fixture(scope="session")
def checked_kernels(shared_folder):
    """Return a function that compiles .metal files with checks. It returns the folder that contains the library."""
    if reason := missing_compiler():
        pytest.skip(reason)

    def build(*sources):
        folder = shared_folder / f"simt-{hashlib.sha256(repr(sources).encode()).hexdigest()[:16]}"
        build_once(folder, "libmpsx_kernels_simt.so", lambda: compile_kernels(sources, folder))
        return folder

    return build


@pytest.fixture(scope="session")
def faulty(native, checked_kernels):
    """Open a driver with the kernels in tests/simt/faults."""
    return Driver(native, checked_kernels(*sorted((HERE / "faults").glob("*.metal"))))


@pytest.fixture(scope="session")
def kernels(native, checked_kernels):
    """Return a function kernels(path, seed) that opens a driver with the kernels of one file."""
    return lambda path, seed: Driver(native, checked_kernels(path), seed)
