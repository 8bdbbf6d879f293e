"""Calls that an event loop awaits. No thread waits for a reply: the ORB's client lane reads all."""

import asyncio


def start(operation, target, arguments):
    """Begins a call and gives the future of its results."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    pending = operation.begin(target, arguments)

    def notify():
        # On the ORB's thread that reads replies.
        try:
            loop.call_soon_threadsafe(look)
        except RuntimeError:
            pending.abandon()  # The loop was closed.

    def look():
        if future.done():
            pending.abandon()
            return
        try:
            if not pending.watch(notify):
                return
            result = operation.finish(pending)
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            future.set_exception(error)
        else:
            future.set_result(result)

    future.add_done_callback(lambda future: pending.abandon() if future.cancelled() else None)
    look()
    return future
