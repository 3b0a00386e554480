"""One thread inside, the caller's setting afterwards."""

import threading
from collections.abc import Iterator

import pytest
import torch

from sk_quadratic._threads import single_thread


@pytest.fixture(autouse=True)
def _two_threads_outside() -> Iterator[None]:
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


def test_setting_is_given_back():
    with single_thread():
        assert torch.get_num_threads() == 1
        with single_thread():
            assert torch.get_num_threads() == 1
        torch.set_num_threads(1)
    assert torch.get_num_threads() == 2


def test_setting_is_given_back_after_an_error():
    with pytest.raises(KeyError, match="inside"), single_thread():
        raise KeyError("inside")
    assert torch.get_num_threads() == 2


def test_overlapping_threads_give_back_the_setting_of_the_first():
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))
    seen = {}

    def first():
        with single_thread():
            first_is_in.set()
            second_is_in.wait(10)
        seen["first"] = torch.get_num_threads()
        first_is_out.set()

    def second():
        first_is_in.wait(10)
        with single_thread():
            second_is_in.set()
            first_is_out.wait(10)
            seen["inside"] = torch.get_num_threads()
        seen["second"] = torch.get_num_threads()

    threads = [threading.Thread(target=f) for f in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen["first"] == seen["second"] == 2
    assert torch.get_num_threads() == 2
