//! Operations with short-lived threads and deep stacks.

use crate::model;
use crate::region::Region;
use crate::story::{self, expect, note};
use crate::sys;
use crate::worker::Worker;
use unrack_basis::{PAGE, mix_13};

/// Bytes that each level of recursion keeps on the stack.
const FRAME: usize = 2000;

/// Fills a stack frame, recurses, and checks the frame on the way back.
#[inline(never)]
pub(super) fn recurse(key: u64, depth: usize) {
    let mut frame = [0u8; FRAME];
    model::fill(std::hint::black_box(&mut frame), key);
    if depth > 0 {
        recurse(mix_13(key), depth - 1);
    }
    expect(model::check(std::hint::black_box(&frame), key), format_args!("stack, {depth} above the deepest"));
}

/// Recurses deeply on the stack of this worker.
pub(super) fn stack(w: &mut Worker) {
    let depth = w.rng.between(1, 400);
    note(format_args!("depth {depth}"));
    recurse(w.rng.next(), depth);
}

/// Runs short-lived threads. Each of them uses its stack, its heap and a part of one region.
pub(super) fn churn(w: &mut Worker) {
    let threads = w.rng.between(1, 4);
    let i = w.any_region(threads);
    let version = w.new_version();
    let (seed, id) = (w.seed, w.id);
    let region = &mut w.regions[i];
    region.protect(sys::READ_WRITE);
    let plan = shares(region, threads, seed, version);
    let depth = w.rng.between(1, 200);
    note(format_args!("{threads} threads, depth {depth}"));
    let shared = w.shared.clone();
    let no_child = shared.with_threads();
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for share in &plan {
            let thread = std::thread::Builder::new().stack_size(depth * 3 * FRAME + (256 << 10));
            let spawned = thread.spawn_scoped(scope, move || {
                story::begin(seed, id);
                story::op("churn, inside a short thread");
                let copy: Vec<u64> = share.iter().map(|&(_, key)| key).collect();
                recurse(copy[0], depth);
                for (&(address, _), key) in share.iter().zip(copy) {
                    model::fill(sys::bytes_mut(address, PAGE), key);
                }
            });
            running.push(spawned.unwrap_or_else(|error| story::fail(format_args!("thread: {error}"))));
        }
        // Joined explicitly, because the end of the scope waits only for the threads' closures, not for the end of the threads.
        for thread in running {
            thread.join().unwrap_or_else(|_| story::fail("a thread panicked"));
        }
    });
    drop(no_child);
    let all = w.regions[i].all();
    w.regions[i].verify(all);
}

/// Returns, for each thread, the addresses and the keys of the pages that the thread writes.
fn shares(region: &mut Region, threads: usize, seed: u64, version: u64) -> Vec<Vec<(usize, u64)>> {
    let each = (region.len() / threads).clamp(1, 64);
    let mut share = |t: usize| {
        (t * each..(t + 1) * each).map(|p| (region.address(p), region.stamp(p, seed, version))).collect()
    };
    (0..threads).map(&mut share).collect()
}

/// Runs a thread whose stack is newly mapped memory.
pub(super) fn own_stack(w: &mut Worker) {
    let pages = w.rng.between(64, 256);
    let base = sys::map(pages, sys::READ_WRITE, sys::ANONYMOUS | libc::MAP_STACK, -1);
    let key = w.rng.next();
    let depth = (pages * PAGE / 2) / (FRAME * 3 / 2);
    let mut job = StackTask { key, depth, seed: w.seed, id: w.id };
    // SAFETY: the attributes are initialised before use; the stack and the job outlive the thread, which is joined.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        libc::pthread_attr_init(&mut attributes);
        libc::pthread_attr_setstack(&mut attributes, base as *mut _, pages * PAGE);
        let mut thread = 0;
        let error = libc::pthread_create(&mut thread, &attributes, start, (&raw mut job).cast());
        libc::pthread_attr_destroy(&mut attributes);
        if error != 0 {
            story::fail(format_args!("pthread_create on our stack: error {error}"));
        }
        libc::pthread_join(thread, std::ptr::null_mut());
    }
    sys::unmap(base, pages);
}

/// Task of the thread that [`own_stack`] starts.
struct StackTask {
    key: u64,
    depth: usize,
    seed: u64,
    id: usize,
}

extern "C" fn start(job: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: `own_stack` passes its job, which lives until the thread is joined.
    let job = unsafe { &*job.cast::<StackTask>() };
    story::begin(job.seed, job.id);
    story::op("ownstack, inside the thread");
    recurse(job.key, job.depth);
    std::ptr::null_mut()
}
