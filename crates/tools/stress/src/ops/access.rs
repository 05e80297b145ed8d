//! Operations that read and write memory: private pages, shared pages, heap blocks.

use crate::sys;
use crate::worker::Worker;
use unrack_basis::PAGE;

/// Checks a few ranges in random regions.
pub(super) fn visit(w: &mut Worker) {
    for _ in 0..w.rng.between(1, 16) {
        let region = w.any_region(1);
        let range = w.any_range(region, 32);
        w.regions[region].verify(range);
    }
}

/// Checks a few ranges, and then writes new bytes into them.
pub(super) fn write(w: &mut Worker) {
    for _ in 0..w.rng.between(1, 16) {
        let region = w.any_region(1);
        let range = w.any_range(region, 32);
        w.regions[region].verify(range.clone());
        w.write(region, range);
    }
}

/// Checks a whole region, from front to back.
pub(super) fn scan(w: &mut Worker) {
    let region = w.any_region(1);
    let all = w.regions[region].all();
    w.regions[region].verify(all);
}

/// Writes shared pages under locks, and adds to shared counters without a lock.
pub(super) fn shared(w: &mut Worker) {
    for _ in 0..w.rng.between(1, 32) {
        w.shared.bump(w.rng.below(w.shared.pages()));
        let counter = w.rng.below(w.shared.counter_count);
        let n = w.rng.between(1, 9) as u64;
        w.shared.add(counter, n);
        w.added[counter] += n;
    }
}

/// Allocates, resizes, rewrites and frees heap blocks.
pub(super) fn heap(w: &mut Worker) {
    w.heap.exercise(&mut w.rng);
}

/// Changes one byte without updating the model, so that every later check must find it.
pub(super) fn corrupt(w: &mut Worker) {
    let region = w.any_region(1);
    let range = w.any_range(region, 1);
    w.regions[region].protect(sys::READ_WRITE);
    let at = w.regions[region].address(range.start) + w.rng.below(PAGE);
    sys::bytes_mut(at, 1)[0] ^= 1;
}
