"""Collectives of PyTorch by reference: the backend `unrack` of `torch.distributed`.

    import torch.distributed as dist
    import unrack.torch

    dist.init_process_group("unrack", rank=rank, world_size=size, init_method=...)
    dist.all_reduce(tensor)

For tensors in the memory of processors, with all ranks on one machine and in one pool: the user's own, or the one at the socket that
the variable `UNRACK_POOL` names. A rank copies what it sends into the pool once, and the others read it there: they add to their
own tensors what lies in the pool, or copy from it.

All ranks reduce in the order of ranks, so they have the same bits. Collectives of a group run in the order in which they were
called; those that are asynchronous run on a thread of the group. Single messages do not wait for the receiver.
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

# Up to so many bytes, and between two ranks, each rank reduces all of the tensor itself: that is one exchange, and not two.
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
    """A collective: done already, or on the group's thread."""

    def __init__(self, run: Callable[[], Any]) -> None:
        super().__init__()
        self._run = run
        self._future: torch.futures.Future[Any] = torch.futures.Future()
        self._over = threading.Event()
        self._error: BaseException | None = None

    def run(self) -> None:
        """Runs it, once."""
        try:
            result = self._run()
        except BaseException as error:  # noqa: BLE001 (who waits is told)
            self._error = error
            self._over.set()
            self._future.set_exception(error if isinstance(error, Exception) else RuntimeError(repr(error)))
            return
        self._over.set()
        self._future.set_result(result)

    def wait(self, timeout: datetime.timedelta = datetime.timedelta(0)) -> bool:
        """Waits until it is done; raises what went wrong."""
        seconds = timeout.total_seconds()
        if not self._over.wait(seconds if seconds > 0 else None):
            raise TimeoutError(f"not done within {seconds} s")
        if self._error is not None:
            raise self._error
        return True

    def get_future(self) -> "torch.futures.Future[Any]":
        """Future of the tensors."""
        return self._future

    def is_completed(self) -> bool:
        """Whether it is over, or failed."""
        return self._over.is_set()

    def is_success(self) -> bool:
        """Whether it is done."""
        return self._over.is_set() and self._error is None

    def exception(self) -> BaseException | None:
        """What went wrong."""
        return self._error

    def result(self) -> list[torch.Tensor]:
        """Tensors of the result."""
        self.wait()
        value = self._future.value()
        return value if isinstance(value, list) else []


class _Receive(_Work):
    """A message that is received by who waits for it: it holds no thread."""

    def __init__(self, run: Callable[[], Any], there: Callable[[], bool]) -> None:
        super().__init__(run)
        self._there = there
        self._once = threading.Lock()
        self.source = -1

    def wait(self, timeout: datetime.timedelta = datetime.timedelta(0)) -> bool:
        """Receives it, if that was not done yet."""
        with self._once:
            if not self._over.is_set():
                self.run()
        return super().wait(timeout)

    def is_completed(self) -> bool:
        """Whether it is there; receives it then."""
        if not self._over.is_set() and self._there():
            self.wait()
        return self._over.is_set()

    def _source_rank(self) -> int:
        return self.source


class UnrackGroup(dist.ProcessGroup):  # type: ignore[misc]
    """A process group over a pool."""

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
        # Works that run on the thread, and those that are not over.
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._pending = 0
        self._order = threading.Lock()
        self._running = threading.Lock()

    # Names by which PyTorch asks.

    def getBackendName(self) -> str:
        """The backend's name."""
        return "unrack"

    def name(self) -> str:
        """The backend's name."""
        return "unrack"

    def rank(self) -> int:
        """This rank."""
        return self._me

    def size(self) -> int:
        """Number of ranks."""
        return self._all

    def shutdown(self) -> None:
        """Leaves the group, after what runs."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None
        self._ranks.close()

    def abort(self) -> None:
        """Leaves the group at once."""
        self._ranks.close()

    # Single messages.

    def send(self, tensors: list[torch.Tensor], to: int, tag: int = 0) -> dist.Work:
        """Sends a tensor; it may be changed when this returns."""
        self._post([self._ranks.single[to]], tag, tensors[0])
        return _done(tensors)

    def recv(self, tensors: list[torch.Tensor], source: int, tag: int = 0) -> dist.Work:
        """Receives a tensor, when it is waited for."""
        peer = self._ranks.single[source]
        work = _Receive(lambda: _fill(tensors[0], peer.take(tag), tensors), lambda: peer.has(tag))
        work.source = source
        return work

    def recv_anysource(self, tensors: list[torch.Tensor], tag: int = 0) -> dist.Work:
        """Receives a tensor of whichever rank sends one first, when it is waited for."""
        peers = self._ranks.single

        def receive() -> Any:
            work.source = _first(peers, tag)
            return _fill(tensors[0], peers[work.source].take(tag), tensors)

        work = _Receive(receive, lambda: any(peer.has(tag) for peer in peers.values()))
        return work

    # Collectives.

    def barrier(self, opts: Any = None) -> dist.Work:
        """Waits until all ranks are here: in each round, ranks at twice the distance."""

        def meet() -> Any:
            distance = 1
            while distance < self._all:
                self._ranks.together[(self._me + distance) % self._all].post(0, b"")
                self._ranks.together[(self._me - distance) % self._all].take(0)
                distance *= 2
            return []

        return self._start(meet, opts)

    def broadcast(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        """Copies a tensor of one rank to all."""

        def run() -> Any:
            if self._me == opts.rootRank:
                self._post(self._others(), 0, tensors[0])
            else:
                _fill(tensors[0], self._ranks.together[opts.rootRank].take(0))
            return tensors

        return self._start(run, opts)

    def allreduce(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        """Reduces tensors of all ranks, for all."""
        return self._start(lambda: [self._all_reduce(tensor, opts.reduceOp) for tensor in tensors], opts)

    def allreduce_coalesced(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        """As `allreduce`, for several."""
        return self.allreduce(tensors, opts)

    def reduce(self, tensors: list[torch.Tensor], opts: Any) -> dist.Work:
        """Reduces tensors of all ranks, for one."""

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
        """Copies the tensor of each rank to all."""

        def run() -> Any:
            for output, one in zip(outputs, inputs, strict=True):
                self._all_gather(output, one)
            return outputs

        return self._start(run, opts)

    def allgather_coalesced(
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any = None
    ) -> dist.Work:
        """As `allgather`, for several, whose outputs are by rank."""
        by_tensor = [list(one) for one in zip(*outputs, strict=True)]
        return self.allgather(by_tensor, inputs, opts)

    def all_gather_single(self, output: torch.Tensor, one: torch.Tensor, opts: Any = None) -> dist.Work:
        """As `allgather`, into one tensor."""
        return self.allgather([_parts(output, self._all)], [one], opts)

    def all_gather_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> dist.Work:
        """As `all_gather_single`, for several."""
        return self.allgather([_parts(output, self._all) for output in outputs], inputs, opts)

    def reduce_scatter(
        self, outputs: list[torch.Tensor], inputs: list[list[torch.Tensor]], opts: Any
    ) -> dist.Work:
        """Reduces a tensor of all ranks for each."""

        def run() -> Any:
            for output, parts in zip(outputs, inputs, strict=True):
                for rank in self._other_ranks():
                    self._post([self._ranks.together[rank]], 0, parts[rank])
                messages = {rank: self._ranks.together[rank].take(0) for rank in self._other_ranks()}
                self._reduce(output, parts[self._me], messages, opts.reduceOp)
            return outputs

        return self._start(run, opts)

    def reduce_scatter_single(self, output: torch.Tensor, whole: torch.Tensor, opts: Any) -> dist.Work:
        """As `reduce_scatter`, of one tensor."""
        return self.reduce_scatter([output], [_parts(whole, self._all)], opts)

    def reduce_scatter_single_coalesced(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any
    ) -> dist.Work:
        """As `reduce_scatter_single`, for several."""
        return self.reduce_scatter(outputs, [_parts(whole, self._all) for whole in inputs], opts)

    def alltoall(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], opts: Any = None
    ) -> dist.Work:
        """Sends each rank a tensor, and receives one of each."""

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
        """As `alltoall`, of one tensor into one, cut along the first dimension."""
        return self.alltoall(
            _parts(output, self._all, output_sizes), _parts(whole, self._all, input_sizes), opts
        )

    def gather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], opts: Any) -> dist.Work:
        """Copies the tensor of each rank to one."""

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
        """Copies a tensor of one rank to each."""

        def run() -> Any:
            if self._me != opts.rootRank:
                return _fill(outputs[0], self._ranks.together[opts.rootRank].take(0), outputs)
            for rank in self._other_ranks():
                self._post([self._ranks.together[rank]], 0, inputs[0][rank])
            outputs[0].copy_(inputs[0][self._me])
            return outputs

        return self._start(run, opts)

    # Older names of the same.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    def _start(self, run: Callable[[], Any], opts: Any) -> _Work:
        """Runs a collective: here if its caller waits for it and none is before it, otherwise on the thread."""
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
                # What follows a work's end may start another, which is to find it over.
                with self._order:
                    self._pending -= 1
                work.run()

    def _other_ranks(self) -> list[int]:
        """Ranks after this one, then those before it: not all ask the same one first."""
        return [(self._me + step) % self._all for step in range(1, self._all)]

    def _others(self) -> list[Peer]:
        return [self._ranks.together[rank] for rank in self._other_ranks()]

    def _post(self, peers: Sequence[Peer], tag: int, tensor: torch.Tensor) -> None:
        """Sends a tensor to each of the peers: copied once."""
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
            # Each rank reduces its part of what all have written once, and then has those of the others.
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
        """Reduces a tensor of this rank with those of all others, in the order of ranks."""
        reduce = next((reduce for known, reduce in _REDUCES if op == known), None)
        if reduce is None:
            raise ValueError(
                f"unrack cannot reduce by {op}: use SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR or BXOR"
            )
        parts = {rank: _tensor(message, own) for rank, message in messages.items()} | {self._me: own}
        order = sorted(parts)
        is_own = output.data_ptr() == own.data_ptr()
        if is_own and order == [0, 1]:
            # Both orders of two give the same bits, and this one needs no copy.
            order.remove(self._me)
            order.insert(0, self._me)
        if is_own and order[0] != self._me:
            # It is needed later, and is where the total goes.
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
    """All bytes of a tensor, in order."""
    if tensor.device.type != "cpu":
        raise ValueError(
            f"unrack passes tensors of processors, and not of {tensor.device}: move it by `.cpu()`"
        )
    flat = tensor.detach().contiguous().reshape(-1)
    return flat.view(torch.uint8) if flat.numel() else torch.empty(0, dtype=torch.uint8)


def _tensor(message: Message, like: torch.Tensor) -> torch.Tensor:
    """A tensor that lies in a message, which it keeps."""
    size = like.numel() * like.element_size()
    if message.nbytes != size:
        raise ValueError(f"ranks differ: one sent {message.nbytes} bytes, and this one has {size}")
    if size == 0:
        return torch.empty_like(like)
    # The exporter of a view that is to be read only does not say so, and nothing writes to it.
    whole: Any = message.obj
    return torch.frombuffer(whole, dtype=torch.uint8).view(like.dtype).view(like.shape)


def _fill(tensor: torch.Tensor, message: Message, result: Any = None) -> Any:
    """Copies a message to a tensor."""
    tensor.copy_(_tensor(message, tensor))
    return result


def _parts(tensor: torch.Tensor, count: int, sizes: Sequence[int] = ()) -> list[torch.Tensor]:
    """Parts of a tensor, cut along its first dimension: of these sizes, or equal."""
    if sizes:
        return list(torch.split(tensor, list(sizes)))
    if tensor.dim() == 0 or tensor.shape[0] % count:
        # A tensor for each rank may also be stacked.
        raise ValueError(f"a tensor of shape {tuple(tensor.shape)} cannot be cut for {count} ranks")
    return list(torch.chunk(tensor, count)) if tensor.shape[0] else [tensor] * count


def _first(peers: dict[int, Peer], tag: int) -> int:
    """Rank of the first peer that has a message. Those that have left are passed over while others are there."""
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
