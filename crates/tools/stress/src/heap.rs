//! Heap blocks of all sizes from malloc and related functions, and the expected bytes of each block.

use crate::model::{self, Rng, ZEROS};
use crate::story::{expect, fail};
use crate::sys;
use unrack_basis::mix_13;

/// Maximum number of blocks of a heap. The limit keeps a full check cheap.
const MOST_BLOCKS: usize = 4096;

/// A heap block, and the key of its bytes.
struct Block {
    address: usize,
    len: usize,
    key: u64,
}

/// The heap blocks of one worker.
pub(crate) struct StressHeap {
    seed: u64,
    owner: u64,
    budget: usize,
    /// Number of allocated bytes.
    used: usize,
    version: u64,
    blocks: Vec<Block>,
}

impl StressHeap {
    /// Makes an empty heap with at most `budget` bytes.
    pub(crate) fn new(seed: u64, worker: u64, budget: usize) -> StressHeap {
        StressHeap { seed, owner: !worker, budget, used: 0, version: 0, blocks: Vec::new() }
    }

    /// Performs a few operations that programs typically perform on their heap.
    pub(crate) fn exercise(&mut self, rng: &mut Rng) {
        for _ in 0..rng.between(1, 64) {
            match rng.below(8) {
                0..=3 => self.allocate(rng),
                4 if !self.blocks.is_empty() => self.resize(rng),
                5 if !self.blocks.is_empty() => self.rewrite(rng),
                _ if !self.blocks.is_empty() => self.release(rng.below(self.blocks.len())),
                _ => {}
            }
        }
        if rng.one_in(16) {
            // SAFETY: this returns free memory to the kernel, and touches no block.
            unsafe { libc::malloc_trim(0) };
        }
    }

    /// Checks the bytes of every block.
    pub(crate) fn verify(&self) {
        self.blocks.iter().for_each(verify);
    }

    /// Returns a number that depends on the expected bytes of all blocks.
    pub(crate) fn digest(&self) -> u64 {
        self.blocks.iter().fold(0, |d, b| mix_13(d ^ b.key ^ b.len as u64))
    }

    fn allocate(&mut self, rng: &mut Rng) {
        let len = any_len(rng);
        while !self.blocks.is_empty() && (self.used + len > self.budget || self.blocks.len() >= MOST_BLOCKS) {
            self.release(rng.below(self.blocks.len()));
        }
        let address = match rng.below(4) {
            0 => {
                // SAFETY: an allocation with a size that is not 0.
                let address = unsafe { libc::calloc(1, len) } as usize;
                must_be_memory(address);
                expect(model::check(sys::bytes(address, len), ZEROS), "fresh from calloc");
                address
            }
            1 => {
                let align = 16 << rng.below(10);
                let mut out = std::ptr::null_mut();
                // SAFETY: `out` receives the address; the alignment is a power of two and at least the size of a pointer.
                let error = unsafe { libc::posix_memalign(&mut out, align, len) };
                if error != 0 || !(out as usize).is_multiple_of(align) {
                    fail(format_args!("posix_memalign({align}, {len}) gave {out:?}, error {error}"));
                }
                out as usize
            }
            // SAFETY: an allocation with a size that is not 0.
            _ => unsafe { libc::malloc(len) as usize },
        };
        must_be_memory(address);
        self.used += len;
        let key = self.new_key();
        model::fill(sys::bytes_mut(address, len), key);
        self.blocks.push(Block { address, len, key });
    }

    fn resize(&mut self, rng: &mut Rng) {
        let i = rng.below(self.blocks.len());
        let len = any_len(rng);
        let key = self.new_key();
        let block = &mut self.blocks[i];
        verify(block);
        // SAFETY: the block is allocated, and its old address is not used again.
        block.address = unsafe { libc::realloc(block.address as *mut _, len) } as usize;
        must_be_memory(block.address);
        self.used = self.used - block.len + len;
        let kept = block.len.min(len);
        // A pattern is a stream, so the beginning of a pattern is the pattern of a shorter block.
        expect(model::check(sys::bytes(block.address, kept), block.key), "kept by realloc");
        (block.len, block.key) = (len, key);
        model::fill(sys::bytes_mut(block.address, len), key);
    }

    fn rewrite(&mut self, rng: &mut Rng) {
        let i = rng.below(self.blocks.len());
        let key = self.new_key();
        let block = &mut self.blocks[i];
        verify(block);
        block.key = key;
        model::fill(sys::bytes_mut(block.address, block.len), key);
    }

    fn release(&mut self, i: usize) {
        let block = self.blocks.swap_remove(i);
        verify(&block);
        self.used -= block.len;
        // SAFETY: the block is allocated, and is not used again.
        unsafe { libc::free(block.address as *mut _) };
    }

    fn new_key(&mut self) -> u64 {
        self.version += 1;
        model::key(self.seed, self.owner, self.version, 0)
    }
}

fn verify(block: &Block) {
    expect(
        model::check(sys::bytes(block.address, block.len), block.key),
        format_args!("block of {} bytes at {:#x}", block.len, block.address),
    );
}

fn must_be_memory(address: usize) {
    if address == 0 {
        fail("out of memory");
    }
}

/// Returns a random length. It is mostly small, and sometimes large enough that malloc uses a separate mapping.
fn any_len(rng: &mut Rng) -> usize {
    let most = match rng.below(16) {
        0 => 4 << 20,
        1..=3 => 200 << 10,
        4..=8 => 8 << 10,
        _ => 256,
    };
    rng.between(1, most)
}
