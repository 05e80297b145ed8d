"""Runs collectives of PyTorch over shared memory: backend `unrack` of `torch.distributed`.

    import torch.distributed as dist
    import unrack.torch

    dist.init_process_group("unrack", rank=rank, world_size=size, init_method=...)
    dist.all_reduce(tensor)

The backend supports CPU tensors only. All ranks must run on one machine and use the same pool: the pool of the current user, or the
one whose socket the variable `UNRACK_POOL` names. A rank copies the data that it sends into the pool once. The other ranks read the
data in place, and reduce it into their own tensors or copy it to them.

All ranks reduce in the order of ranks, so that their results are bitwise equal. Collectives of a group run in the order in which they
were called; asynchronous ones run on a thread of the group. A point-to-point send does not wait for the receiver.
"""

import datetime
import functools
import os
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist

from unrack import lend, rpc
from unrack.ranks import SHORT, Ended, Message, Peer, Ranks

__all__ = ["Ended", "UnrackGroup"]

# Maximum size in bytes of a tensor that each rank reduces as a whole, which takes one exchange instead of two. Groups of two ranks
# always do so.
_ALONE = 64 << 10

_Reduce = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
_REDUCES: list[tuple[Any, _Reduce]] = [
    (dist.ReduceOp.SUM, torch.Tensor.add_),
    (dist.ReduceOp.AVG, torch.Tensor.add_),
    (dist.ReduceOp.PRODUCT, torch.Tensor.mul_),
    (dist.ReduceOp.MIN, lambda all_, one: torch.minimum(all_, one, out=all_)),
    (dist.ReduceOp.MAX, lambda all_, one: torch.maximum(all_, one, out=all_)),
    (dist.ReduceOp.BAND, torch.Tensor.bitwise_and_),
    (dist.ReduceOp.BOR, torch.Tensor.bitwise_or_),
    (dist.ReduceOp.BXOR, torch.Tensor.bitwise_xor_),
]


class _Work(dist.Work):  # type: ignore[misc]
    """Handle of a collective, which either has run already or will run on the group's thread."""

    def __init__(self, run: Callable[[], Any]) -> None:
        super().__init__()
        self._run = run
        self._future: torch.futures.Future[Any] = torch.futures.Future()
        self._over = threading.Event()
        self._error: BaseException | None = None

    def run(self) -> None:
        """Runs the collective. Must be called only once."""
        try:
            result = self._run()
        except BaseException as error:  # noqa: BLE001 (`wait` raises it)
            self._error = error
            self._over.set()
            self._future.set_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))
            return
        self._over.set()
        self._future.set_result(result)

    def wait(self, timeout: datetime.timedelta = datetime.timedelta(0)) -> bool:
        """Waits until the collective has ended, and raises its exception if it failed.

        Raises `TimeoutError` if it does not end within `timeout`; a timeout of 0 means no limit.
        """
        seconds = timeout.total_seconds()
        if not self._over.wait(seconds if seconds > 0 else None):
            raise TimeoutError(f"not done within {seconds} s")
        if self._error is not None:
            raise self._error
        return True

    def get_future(self) -> "torch.futures.Future[Any]":
        """Returns a future that completes with the resulting tensors."""
        return self._future

    def is_completed(self) -> bool:
        """Returns whether the collective has ended, successfully or not."""
        return self._over.is_set()

    def is_success(self) -> bool:
        """Returns whether the collective has ended without an error."""
        return self._over.is_set() and self._error is None

    def exception(self) -> BaseException | None:
        """Returns the exception of a failed collective, or None."""
        return self._error

    def result(self) -> list[torch.Tensor]:
        """Waits until the collective has ended, and returns the resulting tensors."""
        self.wait()
        value = self._future.value()
        return value if isinstance(value, list) else []


class _Receive(_Work):
    """Handle of a receive. The thread that waits for the handle receives the message, so that no other thread is blocked."""

    def __init__(self, run: Callable[[], Any], there: Callable[[], bool]) -> None:
        super().__init__(run)
        self._there = there
        self._once = threading.Lock()
        self.source = -1

    def wait(self, timeout: datetime.timedelta = datetime.timedelta(0)) -> bool:
        """Receives the message, unless it was received before. Raises the exception of a failed receive."""
        with self._once:
            if not self._over.is_set():
                self.run()
        return super().wait(timeout)

    def is_completed(self) -> bool:
        """Returns whether the message has been received. Receives it now if it has arrived."""
        if not self._over.is_set() and self._there():
            self.wait()
        return self._over.is_set()

    def _source_rank(self) -> int:
        return self.source


class UnrackGroup(dist.ProcessGroup):  # type: ignore[misc]
    """A process group of PyTorch whose ranks exchange tensors through a pool."""

    def __init__(self, store: Any, rank: int, size: int, timeout: datetime.timedelta) -> None:
        super().__init__(rank, size)
        self._me, self._all = rank, size
        seconds = timeout.total_seconds() if timeout else None
        self._ranks = Ranks(
            rank,
            size,
            os.environ.get("UNRACK_POOL"),
            lambda one, name: store.set(f"unrack/{one}", name),
            lambda one: store.get(f"unrack/{one}").decode(),
            seconds,
        )
        # Collectives for the thread, and below, the number of those that have not started.
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pending = 0
        self._order = threading.Lock()
        self._running = threading.Lock()

    # Methods whose names PyTorch prescribes.

    def getBackendName(self) -> str:
        """Returns the backend's name."""
        return "unrack"

    def name(self) -> str:
        """Returns the backend's name."""
        return "unrack"

    def rank(self) -> int:
        """Returns the number of this rank."""
        return self._me

    def size(self) -> int:
        """Returns the number of ranks in the group."""
        return self._all

    def shutdown(self) -> None:
        """Waits for the collectives that were started, then leaves the group."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None
        self._ranks.close()

    def abort(self) -> None:
        """Leaves the group at once, without waiting for running collectives."""
        self._ranks.close()

    # Point-to-point messages.

    def send(self, tensors: list[torch.Tensor], to: int, tag: int = 0) -> dist.Work:
        """Sends a tensor to another rank. The tensor is copied, so the caller may change it after this returns."""
        self._post([self._ranks.single[to]], tag, tensors[0])
        return _done(tensors)

    def recv(self, tensors: list[torch.Tensor], source: int, tag: int = 0) -> dist.Work:
        """Returns a handle that receives a tensor from a rank when the caller waits for it."""
        peer = self._ranks.single[source]
        work = _Receive(lambda: _fill(tensors[0], peer.take(tag), tensors), lambda: peer.has(tag))
        work.source = source
        return work

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int = 0) -> dist.Work:
        """Returns a handle that receives the first tensor that any rank sends, when the caller waits for it."""
        peers = self._ranks.single

        def receive() -> Any:
            work.source = _first(peers, tag)
            return _fill(tensors[0], peers[work.source].take(tag), tensors)

        work = _Receive(receive, lambda: any(peer.has(tag) for peer in peers.values()))
        return work

    # Collectives.

    def barrier(self, opts: Any = None) -> dist.Work:
        """Waits until all ranks have reached the barrier.

        In each round a rank sends to one other rank and waits for another; the distance between them doubles from round to round.
        """

        def meet() -> Any:
            distance = 1
            while distance < self._all:
                self._ranks.together[(self._me + distance) % self._all].post(0, b"")
                self._ranks.together[(self._me - distance) % self._all].take(0)
                distance *= 2
            return []

        return self._start(meet, opts)

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        """Copies the tensor of the root rank to all ranks."""

        def run() -> Any:
            if self._me == opts.rootRank:
                self._post(self._others(), 0, tensors[0])
            else:
                _fill(tensors[0], self._ranks.together[opts.rootRank].take(0))
            return tensors

        return self._start(run, opts)

    def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        """Reduces the tensors of all ranks, and stores the result on every rank."""
        return self._start(lambda: [self._all_reduce(tensor, opts.reduceOp) for tensor in tensors], opts)

    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        """Does the same as `allreduce`, for several tensors."""
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        """Reduces the tensors of all ranks, and stores the result on the root rank only."""

        def run() -> Any:
            if self._me == opts.rootRank:
                messages = {rank: self._ranks.together[rank].take(0) for rank in self._other_ranks()}
                self._reduce(tensors[0], tensors[0], messages, opts.reduceOp)
            else:
                self._post([self._ranks.together[opts.rootRank]], 0, tensors[0])
            return tensors

        return self._start(run, opts)

    def allgather(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None
    ) -> dist.Work:
        """Collects the tensors of all ranks on every rank."""

        def run() -> Any:
            for output, one in zip(outputs, inputs, strict=True):
                self._all_gather(output, one)
            return outputs

        return self._start(run, opts)

    def allgather_coalesced(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None
    ) -> dist.Work:
        """Does the same as `allgather`, for several tensors. `outputs` has one list of tensors for each rank."""
        by_tensor = [list(one) for one in zip(*outputs, strict=True)]
        return self.allgather(by_tensor, inputs, opts)

    def all_gather_single(self, output: torch.Tensor, one: torch.Tensor, opts: Any = None) -> dist.Work:
        """Does the same as `allgather`, with the parts of one tensor as outputs."""
        return self.allgather([_parts(output, self._all)], [one], opts)

    def all_gather_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> dist.Work:
        """Does the same as `all_gather_single`, for several tensors."""
        return self.allgather([_parts(output, self._all) for output in outputs], inputs, opts)

    def reduce_scatter(
        self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any
    ) -> dist.Work:
        """Reduces one tensor for each rank: rank i gets the reduction of the i-th input tensors of all ranks."""

        def run() -> Any:
            for output, parts in zip(outputs, inputs, strict=True):
                for rank in self._other_ranks():
                    self._post([self._ranks.together[rank]], 0, parts[rank])
                messages = {rank: self._ranks.together[rank].take(0) for rank in self._other_ranks()}
                self._reduce(output, parts[self._me], messages, opts.reduceOp)
            return outputs

        return self._start(run, opts)

    def reduce_scatter_single(self, output: torch.Tensor, whole: torch.Tensor, opts: Any) -> dist.Work:
        """Does the same as `reduce_scatter`, with the parts of one tensor as inputs."""
        return self.reduce_scatter([output], [_parts(whole, self._all)], opts)

    def reduce_scatter_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any
    ) -> dist.Work:
        """Does the same as `reduce_scatter_single`, for several tensors."""
        return self.reduce_scatter(outputs, [_parts(whole, self._all) for whole in inputs], opts)

    def alltoall(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> dist.Work:
        """Sends one tensor to each rank, and receives one tensor from each rank."""

        def run() -> Any:
            for rank in self._other_ranks():
                self._post([self._ranks.together[rank]], 0, inputs[rank])
            outputs[self._me].copy_(inputs[self._me])
            for rank in self._other_ranks():
                _fill(outputs[rank], self._ranks.together[rank].take(0))
            return outputs

        return self._start(run, opts)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        whole: torch.Tensor,
        output_sizes: list[int],
        input_sizes: list[int],
        opts: Any = None,
    ) -> dist.Work:
        """Does the same as `alltoall`, with the parts of one input and one output tensor, cut along their first dimension.

        Empty lists of sizes mean equal parts.
        """
        return self.alltoall(
            _parts(output, self._all, output_sizes), _parts(whole, self._all, input_sizes), opts
        )

    def gather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any) -> dist.Work:
        """Collects the tensors of all ranks on the root rank."""

        def run() -> Any:
            if self._me != opts.rootRank:
                self._post([self._ranks.together[opts.rootRank]], 0, inputs[0])
                return inputs
            for rank, output in enumerate(outputs[0]):
                if rank == self._me:
                    output.copy_(inputs[0])
                else:
                    _fill(output, self._ranks.together[rank].take(0))
            return outputs[0]

        return self._start(run, opts)

    def scatter(self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any) -> dist.Work:
        """Copies one tensor of the root rank to each rank: rank i gets the i-th tensor."""

        def run() -> Any:
            if self._me != opts.rootRank:
                return _fill(outputs[0], self._ranks.together[opts.rootRank].take(0), outputs)
            for rank in self._other_ranks():
                self._post([self._ranks.together[rank]], 0, inputs[0][rank])
            outputs[0].copy_(inputs[0][self._me])
            return outputs

        return self._start(run, opts)

    # Older names of these methods in PyTorch.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    def _start(self, run: Callable[[], Any], opts: Any) -> _Work:
        """Starts a collective, and returns its handle.

        If the caller waits for the collective and no earlier one is pending, it runs on the calling thread. Otherwise it runs on
        the group's thread, after the earlier ones.
        """
        work = _Work(run)
        waits = opts is not None and getattr(opts, "asyncOp", True) is False
        with self._order:
            here = waits and self._pending == 0
            if not here:
                self._pending += 1
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="unrack-torch", daemon=True)
                    self._thread.start()
                self._queue.put(work)
        if here:
            with self._running:
                work.run()
        return work

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            with self._running:
                # Decrement before the work runs, because a callback at its end may start another work, which must not count this one.
                with self._order:
                    self._pending -= 1
                work.run()

    def _other_ranks(self) -> list[int]:
        """Returns the other ranks, beginning after this one and wrapping around, so that the ranks do not all start with rank 0."""
        return [(self._me + step) % self._all for step in range(1, self._all)]

    def _others(self) -> list[Peer]:
        return [self._ranks.together[rank] for rank in self._other_ranks()]

    def _post(self, peers: Sequence[Peer], tag: int, tensor: torch.Tensor) -> None:
        """Sends a tensor to each of the peers. A long tensor is copied into the pool only once."""
        whole = _bytes(tensor)
        size = whole.numel()
        if size <= SHORT:
            packed = whole.numpy().tobytes()
            for peer in peers:
                peer.post(tag, packed)
            return
        with self._buffer(size) as buffer:
            torch.frombuffer(buffer.body, dtype=torch.uint8).copy_(whole)
            for peer in peers:
                peer.post(tag, buffer)

    def _buffer(self, size: int) -> lend.Buffer:
        try:
            return self._ranks.endpoint.buffer(size)
        except rpc.PoolError as error:
            raise MemoryError(f"no memory for {size} bytes that are sent: {error}") from error

    def _all_gather(self, outputs: list[torch.Tensor], one: torch.Tensor) -> None:
        self._post(self._others(), 0, one)
        outputs[self._me].copy_(one.reshape_as(outputs[self._me]))
        for rank in self._other_ranks():
            _fill(outputs[rank], self._ranks.together[rank].take(0))

    def _all_reduce(self, tensor: torch.Tensor, op: Any) -> torch.Tensor:
        flat = tensor if tensor.is_contiguous() else tensor.contiguous()
        if self._all <= 2 or flat.numel() * flat.element_size() <= _ALONE:
            self._post(self._others(), 0, flat)
            messages = {rank: self._ranks.together[rank].take(0) for rank in self._other_ranks()}
            self._reduce(flat, flat, messages, op)
        else:
            # Each rank reduces its part of the tensors of all ranks, then the ranks exchange their reduced parts.
            cut = functools.partial(torch.tensor_split, flat.view(-1), self._all)
            for rank in self._other_ranks():
                self._post([self._ranks.together[rank]], 0, cut()[rank])
            mine = cut()[self._me]
            messages = {rank: self._ranks.together[rank].take(0) for rank in self._other_ranks()}
            self._reduce(mine, mine, messages, op)
            self._all_gather(list(cut()), mine)
        if flat is not tensor:
            tensor.copy_(flat)
        return tensor

    def _reduce(self, output: torch.Tensor, own: torch.Tensor, messages: dict[int, Message], op: Any) -> None:
        """Reduces a tensor of this rank with the tensors of all other ranks, in the order of ranks, into `output`."""
        reduce = next((reduce for known, reduce in _REDUCES if op == known), None)
        if reduce is None:
            raise ValueError(
                f"unrack cannot reduce by {op}: use SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR or BXOR"
            )
        parts = {rank: _tensor(message, own) for rank, message in messages.items()} | {self._me: own}
        order = sorted(parts)
        is_own = output.data_ptr() == own.data_ptr()
        if is_own and order == [0, 1]:
            # With two ranks, both orders give the same bits. Starting with this rank's tensor avoids a copy.
            order.remove(self._me)
            order.insert(0, self._me)
        if is_own and order[0] != self._me:
            # The total overwrites this rank's tensor before that tensor is reduced, so reduce a copy.
            parts[self._me] = own.clone()
        total = (
            output if is_own and order[0] == self._me else output.copy_(parts[order[0]].reshape_as(output))
        )
        for rank in order[1:]:
            reduce(total, parts[rank].reshape_as(total))
        if op == dist.ReduceOp.AVG:
            total.div_(self._all)


def _done(tensors: list[torch.Tensor]) -> _Work:
    work = _Work(lambda: tensors)
    work.run()
    return work


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the elements of a CPU tensor as a flat tensor of bytes. Raises `ValueError` for a tensor on another device."""
    if tensor.device.type != "cpu":
        raise ValueError(
            f"unrack supports CPU tensors only, not {tensor.device}: move the tensor with `.cpu()`"
        )
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.view(torch.uint8) if flat.numel() else torch.empty(0, dtype=torch.uint8)


def _tensor(message: Message, like: torch.Tensor) -> torch.Tensor:
    """Returns a tensor with the type and shape of `like` that lies in a message, and keeps the message's memory.

    Raises `ValueError` if the message has another size.
    """
    size = like.numel() * like.element_size()
    if message.nbytes != size:
        raise ValueError(f"ranks differ: one sent {message.nbytes} bytes, and this one has {size}")
    if size == 0:
        return torch.empty_like(like)
    # Use the exporter of the read-only view, because it is not marked read-only. This backend does not write to the tensor.
    whole: Any = message.obj
    return torch.frombuffer(whole, dtype=torch.uint8).view(like.dtype).view(like.shape)


def _fill(tensor: torch.Tensor, message: Message, result: Any = None) -> Any:
    """Copies a message into a tensor, and returns `result`."""
    tensor.copy_(_tensor(message, tensor))
    return result


def _parts(tensor: torch.Tensor, count: int, sizes: Sequence[int] = ()) -> list[torch.Tensor]:
    """Cuts a tensor along its first dimension into parts of the given sizes, or into `count` equal parts.

    Raises `ValueError` if equal parts are not possible.
    """
    if sizes:
        return list(torch.split(tensor, list(sizes)))
    if tensor.dim() == 0 or tensor.shape[0] % count:
        # The first dimension must be divisible by the number of ranks.
        raise ValueError(f"a tensor of shape {tuple(tensor.shape)} cannot be cut for {count} ranks")
    return list(torch.chunk(tensor, count)) if tensor.shape[0] else [tensor] * count


def _first(peers: dict[int, Peer], tag: int) -> int:
    """Waits for a message with a tag from any peer, and returns that peer's rank.

    Peers that have left the group are skipped. Raises `Ended` when all peers have left.
    """
    import selectors

    left = dict(peers)
    with selectors.DefaultSelector() as selector:
        for rank, peer in peers.items():
            selector.register(peer, selectors.EVENT_READ, rank)
        while True:
            for rank, peer in list(left.items()):
                try:
                    if peer.look(tag):
                        return rank
                except Ended:
                    selector.unregister(peer)
                    del left[rank]
                    if not left:
                        raise
            selector.select()


def _create(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> UnrackGroup:
    return UnrackGroup(store, rank, size, timeout)


dist.Backend.register_backend("unrack", _create, devices=["cpu"])
