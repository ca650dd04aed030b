"""Fixtures of the stacks' tests, which run in the stack's own environment beside a service that is running."""

import os

import pytest

pytest.register_assert_rewrite("scenario", "stack_tests", "more_tests")


@pytest.fixture(scope="session")
def service_url() -> str:
    """The address of a running Coatcheck, which `run.py` starts."""
    return os.environ["COATCHECK_STACKS_SERVICE"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs each test of a stack in each way that its framework has."""
    if "mode" in metafunc.fixturenames:
        metafunc.parametrize("mode", metafunc.cls.modes)
