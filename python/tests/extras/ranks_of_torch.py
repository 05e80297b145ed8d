"""What one rank of a test does: `python ranks_of_torch.py BACKEND RANK SIZE FOLDER JOB`. Its results are a file of the folder."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
import unrack.torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

DTYPES = [torch.float32, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bfloat16, torch.float16]
SIZES = [(), (0,), (1,), (7, 3), (1000,), (33_000,), (300, 1001)]
OPS = [dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX]


def drawn(rank, shape, dtype):
    """A tensor that differs by rank, of small values: they add up without rounding, and multiply without overflow."""
    generator = torch.Generator().manual_seed(100 * rank + len(shape))
    return torch.randint(0, 3, shape, generator=generator).to(dtype)


def collectives(rank, size):
    """All collectives for all types and sizes."""
    results = {}
    for dtype in DTYPES:
        for shape in SIZES:
            one = drawn(rank, shape, dtype)
            key = f"{dtype} {shape}"
            for op in OPS:
                reduced = one.clone()
                dist.all_reduce(reduced, op)
                results[f"all_reduce {op} {key}"] = reduced
            for root in range(size):
                copied = one.clone()
                dist.broadcast(copied, root)
                results[f"broadcast {root} {key}"] = copied
                reduced = one.clone()
                dist.reduce(reduced, root)
                results[f"reduce {root} {key}"] = reduced if rank == root else torch.empty(0)
                outputs = [torch.empty_like(one) for _ in range(size)]
                dist.gather(one, outputs if rank == root else None, root)
                results[f"gather {root} {key}"] = torch.stack(outputs) if rank == root else torch.empty(0)
                output = torch.empty_like(one)
                dist.scatter(output, [one + at for at in range(size)] if rank == root else None, root)
                results[f"scatter {root} {key}"] = output
            outputs = [torch.empty_like(one) for _ in range(size)]
            dist.all_gather(outputs, one)
            results[f"all_gather {key}"] = torch.stack(outputs)
            outputs = [torch.empty_like(one) for _ in range(size)]
            dist.all_to_all(outputs, [one + at for at in range(size)])
            results[f"all_to_all {key}"] = torch.stack(outputs)
            if shape:
                whole = torch.cat([one + at for at in range(size)])
                output = torch.empty((size * shape[0], *shape[1:]), dtype=dtype)
                dist.all_gather_into_tensor(output, one)
                results[f"all_gather_into_tensor {key}"] = output
                output = torch.empty_like(one)
                dist.reduce_scatter_tensor(output, whole.clone())
                results[f"reduce_scatter_tensor {key}"] = output
                output = torch.empty_like(whole)
                dist.all_to_all_single(output, whole)
                results[f"all_to_all_single {key}"] = output
    bits = drawn(rank, (5000,), torch.int32)
    for op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR):
        reduced = bits.clone()
        dist.all_reduce(reduced, op)
        results[f"bits {op}"] = reduced
    flags = drawn(rank, (5000,), torch.bool)
    outputs = [torch.empty_like(flags) for _ in range(size)]
    dist.all_gather(outputs, flags)
    results["flags"] = torch.stack(outputs)
    return results


def uneven(rank, size):
    """Parts of different sizes, and none for some ranks."""
    sizes = [[(2 * one + other) % 4 * 1000 for other in range(size)] for one in range(size)]
    whole = drawn(rank, (sum(sizes[rank]), 3), torch.float32)
    received = [sizes[one][rank] for one in range(size)]
    output = torch.empty((sum(received), 3))
    dist.all_to_all_single(output, whole, received, sizes[rank])
    return {"all_to_all_single": output}


def strides(rank, size):
    """Tensors that are no runs of memory, of which gloo sends others than it was given."""
    every = [drawn(one, (400, 300), torch.float64)[::2] for one in range(size)]
    reduced, copied = drawn(rank, (400, 300), torch.float64)[::2], drawn(rank, (400, 300), torch.float64)[::2]
    dist.all_reduce(reduced)
    dist.broadcast(copied, size - 1)
    gathered = [torch.empty((300, 200), dtype=torch.float64).t() for _ in range(size)]
    dist.all_gather(gathered, every[rank])
    right = torch.equal(reduced, sum(every)) and torch.equal(copied, every[-1])
    return {"right": right and all(torch.equal(*pair) for pair in zip(gathered, every, strict=True))}


def messages(rank, size):
    """Single messages: in a ring, by tags, in any order, of any rank, many at once."""
    results = {}
    after, before = (rank + 1) % size, (rank - 1) % size
    for count in (3, 100_000):
        received = torch.empty(count)
        waits = dist.irecv(received, before)
        dist.isend(torch.full((count,), float(rank)), after).wait()
        waits.wait()
        results[f"ring {count}"] = received
    sends = [dist.isend(torch.full((2000,), float(tag)), after, tag=tag) for tag in range(200)]
    tensors = [torch.empty(2000) for _ in sends]
    for tag in reversed(range(200)):
        dist.recv(tensors[tag], before, tag=tag)
    for send in sends:
        send.wait()
    results["tags"] = torch.stack(tensors)
    batch = [dist.P2POp(dist.irecv, torch.empty(5000), other) for other in range(size) if other != rank]
    batch += [
        dist.P2POp(dist.isend, torch.full((5000,), float(rank)), other)
        for other in range(size)
        if other != rank
    ]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    results["batch"] = torch.stack([one.tensor for one in batch])
    if rank == 0:
        seen = {}
        for _ in range(size - 1):
            received = torch.empty(20_000)
            seen[dist.recv(received, tag=7)] = received
        results["any"] = torch.stack([seen[other] for other in range(1, size)])
    else:
        dist.send(torch.full((20_000,), float(rank)), 0, tag=7)
    return results


def leaving(rank, size):
    """A message of any rank, when one has sent other things and one has left."""
    if rank == 1:
        # Gone, once this returns.
        return {}
    received = torch.empty(5)
    if rank == 2:
        dist.send(torch.full((5,), 7.0), 0, tag=6)
        dist.recv(received, 0, tag=5)
        dist.send(torch.full((5,), 2.0), 0, tag=7)
        return {}
    try:
        dist.recv(received, 1)
    except unrack.torch.Ended:
        dist.send(received, 2, tag=5)
    source = dist.recv(received, tag=7)
    other = torch.empty(5)
    dist.recv(other, 2, tag=6)
    try:
        dist.recv(received.clone(), tag=8)
    except unrack.torch.Ended as error:
        return {"source": source, "received": received.tolist(), "other": other.tolist(), "ended": str(error)}


def asynchronous(rank, size):
    """Collectives that are under way together, in two groups, in different orders by rank."""
    groups = [dist.new_group(), dist.new_group()]
    tensors = [[drawn(rank, (20_000,), torch.float32) + at for at in range(5)] for _ in groups]
    order = (0, 1) if rank % 2 else (1, 0)
    works = [
        dist.all_reduce(tensor, group=groups[number], async_op=True)
        for number in order
        for tensor in tensors[number]
    ]
    last = drawn(rank, (10,), torch.float32)
    dist.all_reduce(last, group=groups[0])
    future = works[0].get_future().then(lambda done: done.value()[0].sum())
    for work in works:
        work.wait()
        assert work.is_completed()
    total = future.wait()
    dist.barrier()
    pair = dist.new_group([0, 1])
    within = torch.full((3,), float(rank))
    if rank < 2:
        dist.all_reduce(within, group=pair)
    results = {str(number): torch.stack(tensors[number]) for number in (0, 1)}
    return results | {"last": last, "total": total, "within": within}


def objects(rank, size):
    """Objects, by the functions that PyTorch has for them."""
    gathered = [None] * size
    dist.all_gather_object(gathered, {"rank": rank, "text": "x" * 20_000})
    listed = [rank, "from", rank] if rank == 1 else [None] * 3
    dist.broadcast_object_list(listed, 1)
    return {
        "gathered": torch.tensor([one["rank"] + len(one["text"]) for one in gathered]),
        "listed": repr(listed),
    }


def training(rank, size):
    """Losses of ResNet-18 on random data, by DDP."""
    from torchvision.models import resnet18

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = DistributedDataParallel(resnet18(num_classes=10, norm_layer=lambda width: nn.GroupNorm(4, width)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    generator = torch.Generator().manual_seed(rank)
    losses = []
    for _ in range(6):
        images = torch.randn(4, 3, 48, 48, generator=generator)
        labels = torch.randint(0, 10, (4,), generator=generator)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        dist.all_reduce(loss)
        losses.append(loss.detach())
    weights = torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])
    return {"losses": torch.stack(losses), "weights": weights.double().pow(2).sum()}


def errors(rank, size):
    """What goes wrong, and what is said."""
    said = {}
    for name, call in {
        "device": lambda: dist.all_reduce(torch.empty(5, device="meta")),
        "shape": lambda: dist.all_gather_into_tensor(torch.empty(4), torch.empty(2)),
    }.items():
        try:
            call()
        except (ValueError, RuntimeError) as error:
            said[name] = str(error)
    dist.barrier()
    if rank == size - 1:
        # The others are told.
        return said
    try:
        dist.recv(torch.empty(5), size - 1)
    except unrack.torch.Ended as error:
        said["ended"] = str(error)
    return said


def main():
    backend, rank, size, folder, job = sys.argv[1:]
    rank, size = int(rank), int(size)
    dist.init_process_group(
        backend, rank=rank, world_size=size, init_method=f"file://{folder}/{backend}-{job}-store"
    )
    results = globals()[job](rank, size)
    torch.save(results, Path(folder, f"{backend}-{job}-{rank}.pt"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
