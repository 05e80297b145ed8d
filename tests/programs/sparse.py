"""Reads pages of a sparse mapping of 4 TiB repeatedly: pages that are far apart, and some that are adjacent."""

import hashlib
import mmap
import random
import sys

SIZE = 4 << 40
PAGE = 4096


def main(mebibytes: int) -> None:
    pages = mebibytes * 256
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE
    memory = mmap.mmap(-1, SIZE, flags=flags)
    draw = random.Random(1)
    near = [n * PAGE for n in range(pages)]
    far = [draw.randrange(SIZE // PAGE) * PAGE for _ in range(pages // 8)]
    for n, at in enumerate(near + far):
        memory[at : at + 8] = (n + 1).to_bytes(8, "little")
    found = hashlib.sha256()
    for _ in range(3):
        draw.shuffle(near)
        draw.shuffle(far)
        for at in near + far:
            found.update(memory[at : at + 8])
    # MADV_DONTNEED drops the contents; the pages must read as zeros afterwards.
    memory.madvise(mmap.MADV_DONTNEED, 0, SIZE)
    found.update(bytes(memory[far[0] : far[0] + 8]))
    print(found.hexdigest())


if __name__ == "__main__":
    main(int(sys.argv[1]))
