"""Calls that tasks wait for."""

import asyncio
import os
import time
import unittest

import numpy as np
from rpc_service import RpcService
from unrack import rpc


def eventfds():
    """Returns the number of eventfds of this process. Other descriptors may come and go with threads of earlier tests."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{name}") == "anon_inode:[eventfd]"
        except FileNotFoundError:
            continue
    return found


class Tasks(RpcService):
    """Calls of several tasks in one thread."""

    def test_tasks_share_a_client(self):
        """Far more than may be under way at a time, in one thread."""

        async def often(client, number):
            for _ in range(5):
                with client.call("square", 8) as request:
                    np.frombuffer(request.body, np.float64)[0] = number
                    self.assertEqual(np.frombuffer(await request.wait(), np.float64)[0], number**2)

        async def all_of_them():
            for calls in (1, 17):
                with rpc.connect("test", self.pool, calls=calls) as client:
                    async with asyncio.TaskGroup() as group:
                        for number in range(40):
                            group.create_task(often(client, number))

        asyncio.run(asyncio.wait_for(all_of_them(), 30))

    def test_a_task_that_waits_holds_nobody_up(self):
        async def nap(**options):
            with self.client.call("nap", 8, **options) as request:
                return len(await request.wait())

        async def all_of_them():
            napping = asyncio.create_task(nap())
            for _ in range(5):
                with self.client.call("square", 8) as request:
                    await request.wait()
            self.assertFalse(napping.done())
            self.assertEqual(await napping, 0)
            with self.assertRaises(rpc.Deadline):
                await nap(deadline=0.01)
            with self.assertRaises(rpc.UnknownMethod), self.client.call("nowhere", 8) as request:
                await request.wait()
            with self.client.call("nap", 8) as request:
                with self.assertRaises(TimeoutError):
                    await asyncio.wait_for(request.wait(), 0.01)
                # Still under way.
                self.assertEqual(len(await request.wait()), 0)

        # The first call leases the memory that it is in.
        with self.client.call("square", 8) as request:
            request.answer()
        before = eventfds()
        asyncio.run(asyncio.wait_for(all_of_them(), 30))
        # The thread that wakes a task closes the task's eventfd afterwards.
        for _ in range(1000):
            if eventfds() <= before:
                break
            time.sleep(0.01)
        self.assertLessEqual(eventfds(), before)


class TasksInModel(Tasks):
    memory = "model"


class TasksFlushing(Tasks):
    memory = "incoherent"


if __name__ == "__main__":
    unittest.main()
