//! One thread of the stress test: its regions and heap blocks, and the loop that chooses its operations.

use crate::heap::StressHeap;
use crate::model::Rng;
use crate::region::Region;
use crate::shared::SharedPages;
use crate::story;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;
use unrack_basis::mix_13;

/// Maximum number of regions of one thread, far below the kernel's limit on mappings.
const MOST_REGIONS: usize = 48;

/// Number of operations between two full checks.
const FULL_CHECK_EVERY: usize = 256;

/// An operation of the stress test.
pub(crate) struct Op {
    pub name: &'static str,
    /// Relative frequency: an operation is chosen with the probability of its weight divided by the sum of all weights.
    pub weight: usize,
    /// Whether the operation is chosen if the user names no operations.
    pub usual: bool,
    pub run: fn(&mut Worker),
}

/// Condition that ends a worker.
#[derive(Clone, Copy)]
pub(crate) enum StopCondition {
    /// After a number of operations.
    Ops(usize),
    /// At a point in time.
    At(Instant),
}

/// Result of a worker. It depends only on the seed and on the number of operations, not on how the memory is provided.
pub(crate) struct WorkerOutcome {
    /// Number of performed operations, by name.
    pub done: BTreeMap<&'static str, usize>,
    pub digest: u64,
    /// Sums that the worker added to each shared counter.
    pub added: Vec<u64>,
}

/// State of one thread of the stress test.
pub(crate) struct Worker {
    pub id: usize,
    pub seed: u64,
    pub rng: Rng,
    pub regions: Vec<Region>,
    pub heap: StressHeap,
    pub shared: Arc<SharedPages>,
    /// Sums that this thread has added to each shared counter.
    pub added: Vec<u64>,
    /// Number of forks between the first process and this one.
    pub depth: usize,
    /// Maximum number of pages that may be mapped.
    budget: usize,
    next_id: u64,
    version: u64,
    done: BTreeMap<&'static str, usize>,
}

impl Worker {
    /// Makes a worker that keeps about `budget` pages mapped and `heap` bytes allocated.
    pub(crate) fn new(id: usize, seed: u64, budget: usize, heap: usize, shared: Arc<SharedPages>) -> Worker {
        story::begin(seed, id);
        Worker {
            id,
            seed,
            rng: Rng::new(seed ^ mix_13(id as u64 + 1)),
            regions: Vec::new(),
            heap: StressHeap::new(seed, id as u64, heap),
            added: vec![0; shared.counter_count],
            shared,
            depth: 0,
            budget,
            next_id: (id as u64 + 1) << 40,
            version: 0,
            done: BTreeMap::new(),
        }
    }

    /// Performs random operations until the end condition holds.
    pub(crate) fn run(mut self, ops: &[&'static Op], end: StopCondition) -> WorkerOutcome {
        let total: usize = ops.iter().map(|op| op.weight).sum();
        for n in 1.. {
            match end {
                StopCondition::Ops(count) if n > count => break,
                StopCondition::At(deadline) if Instant::now() >= deadline => break,
                _ => self.step(ops, total),
            }
            if n % FULL_CHECK_EVERY == 0 {
                self.verify_everything();
            }
        }
        story::op("final check");
        self.verify_everything();
        let regions = self.regions.iter().fold(0, |d, region| mix_13(d ^ region.digest()));
        WorkerOutcome { digest: regions ^ self.heap.digest(), done: self.done, added: self.added }
    }

    /// Performs one random operation, chosen by weight.
    fn step(&mut self, ops: &[&'static Op], total: usize) {
        let mut at = self.rng.below(total);
        for op in ops {
            if at < op.weight {
                story::op(op.name);
                *self.done.entry(op.name).or_default() += 1;
                return (op.run)(self);
            }
            at -= op.weight;
        }
    }

    /// Checks every byte that this thread owns.
    pub(crate) fn verify_everything(&mut self) {
        for region in &mut self.regions {
            region.verify(region.all());
        }
        self.heap.verify();
    }

    /// Returns a new region id.
    pub(crate) fn new_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Returns a new version, which makes the bytes of a write unique.
    pub(crate) fn new_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// Adds a region. Before that, discards other regions if there are too many regions or pages. Returns the region's index.
    pub(crate) fn adopt(&mut self, region: Region) -> usize {
        while self.regions.len() >= MOST_REGIONS || self.mapped() + region.len() > self.budget {
            if self.regions.is_empty() {
                break;
            }
            let victim = self.rng.below(self.regions.len());
            self.discard(victim);
        }
        self.regions.push(region);
        self.regions.len() - 1
    }

    /// Checks a region for the last time, and unmaps it.
    pub(crate) fn discard(&mut self, region: usize) {
        let mut region = self.regions.swap_remove(region);
        region.verify(region.all());
        crate::sys::unmap(region.base, region.len());
    }

    fn mapped(&self) -> usize {
        self.regions.iter().map(Region::len).sum()
    }

    /// Returns a random size in pages. All orders of magnitude are equally likely.
    pub(crate) fn any_size(&mut self) -> usize {
        let most = (self.budget / 4).max(2);
        let bits = self.rng.between(0, most.ilog2() as usize);
        self.rng.between(1, (2 << bits).min(most))
    }

    /// Returns the index of a random region with at least `pages` pages. Makes a new region if there is none.
    pub(crate) fn any_region(&mut self, pages: usize) -> usize {
        let fit: Vec<usize> = (0..self.regions.len()).filter(|&i| self.regions[i].len() >= pages).collect();
        if !fit.is_empty() {
            return fit[self.rng.below(fit.len())];
        }
        let size = self.any_size().max(pages);
        self.fresh(size)
    }

    /// Maps a new region, and writes some of it. Returns its index.
    pub(crate) fn fresh(&mut self, pages: usize) -> usize {
        let region = Region::map(self.new_id(), pages);
        let i = self.adopt(region);
        self.write_some(i);
        i
    }

    /// Writes all, none or some of a region's pages.
    pub(crate) fn write_some(&mut self, region: usize) {
        let range = match self.rng.below(8) {
            0 => return,
            1..=4 => self.regions[region].all(),
            _ => self.any_range(region, usize::MAX),
        };
        self.write(region, range);
    }

    /// Writes new bytes into pages of a region.
    pub(crate) fn write(&mut self, region: usize, range: Range<usize>) {
        let version = self.new_version();
        self.regions[region].write(range, self.seed, version);
    }

    /// Returns a random range of a region's pages. It has at least one page and at most `most`.
    pub(crate) fn any_range(&mut self, region: usize, most: usize) -> Range<usize> {
        let len = self.regions[region].len();
        let start = self.rng.below(len);
        let most = most.min(len - start);
        start..start + self.rng.between(1, most)
    }
}
