import asyncio
import gc
import threading

import pytest

import isorb


def test_calls_are_awaited_together(remote, radar):
    async def main():
        assert await remote.add_async(1, 2) == 3
        return await asyncio.gather(*(remote.add_async(n, n) for n in range(50)))

    assert asyncio.run(main()) == [2 * n for n in range(50)]


def test_no_thread_waits_for_a_reply(own):
    async def main():
        await own.add_async(1, 2)
        before = threading.active_count()
        pending = [own.wait_async(0.3) for _ in range(2)]
        await asyncio.sleep(0.05)
        assert threading.active_count() <= before + 1
        await asyncio.gather(*pending)

    asyncio.run(main())


def test_exceptions_are_awaited(remote, radar):
    async def main():
        with pytest.raises(radar.Refused, match="below zero"):
            await remote.add_async(-1, 0)
        with pytest.raises(isorb.UNKNOWN):
            await remote.fail_async()
        with pytest.raises(isorb.TIMEOUT):
            await remote.with_timeout(0.1).wait_async(1.0)
        with pytest.raises(TypeError, match="a: expected long"):
            await remote.add_async("1", 2)
        assert await remote.note_async("oneway") is None

    asyncio.run(main())


def test_a_cancelled_call_is_given_up(own):
    async def main():
        task = asyncio.ensure_future(own.wait_async(0.5))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await own.add_async(1, 2) == 3

    asyncio.run(main())


def test_a_loop_that_closed_and_garbage_do_no_harm(own):
    async def main():
        for _ in range(20):
            own.add_async(1, 2)  # not awaited
        own.wait_async(0.2)
        gc.collect()

    for _ in range(3):
        asyncio.run(main())
    assert own.add(1, 2) == 3


def test_without_a_loop_it_says_so(own):
    with pytest.raises(RuntimeError, match="no running event loop"):
        own.add_async(1, 2)
