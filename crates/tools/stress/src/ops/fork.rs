//! Operations that create child processes. Each child must see the memory as it was at the fork, and changes only its own copy.

use super::programs;
use crate::model::{self, ZEROS};
use crate::story::{expect, note};
use crate::sys::{self, DescriptorPair};
use crate::worker::{Op, Worker};
use unrack_basis::PAGE;

const DEEPEST: usize = 2;

/// Forks a child that checks all memory, changes some of it, performs operations for a while, and may fork children itself.
pub(super) fn fork(w: &mut Worker) {
    // SAFETY: the child uses only this thread's memory, memory frozen by `with_child`, and malloc.
    with_child(w, "fork", || unsafe { libc::fork() });
}

/// Forks through the raw system call, which bypasses all handlers that libraries have registered for forks.
pub(super) fn raw(w: &mut Worker) {
    // SAFETY: the arguments are those of fork, and the child uses the same memory as the child of `fork`.
    with_child(w, "raw clone", || unsafe {
        libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as i32
    });
}

/// Creates a child with `make`, changes pages while the child lives, and waits for the child.
fn with_child(w: &mut Worker, what: &str, make: impl Fn() -> i32) {
    if w.depth >= DEEPEST {
        return;
    }
    let go = DescriptorPair::pipe();
    // Ensures that there is at least one region, otherwise the child would have nothing to check.
    w.any_region(1);
    let shared = w.shared.clone();
    let still = shared.with_child();
    let frozen = shared.freeze();
    let child = make();
    if child == 0 {
        shared.verify(&frozen);
        drop((frozen, still));
        live(w, go);
    }
    drop((frozen, still));
    sys::must(child, what);
    // The parent changes pages first, and only then permits the child to check its own copies.
    for _ in 0..w.rng.below(8) {
        let i = w.any_region(1);
        let range = w.any_range(i, 64);
        w.write(i, range);
    }
    // SAFETY: writes one byte of a constant.
    sys::retry("write", || unsafe { libc::write(go.1, b"!".as_ptr().cast(), 1) });
    sys::wait(child, what);
    w.verify_everything();
}

/// Runs the child until its end: checks all memory, performs some operations, and checks again.
fn live(w: &mut Worker, go: DescriptorPair) -> ! {
    note("(in the child)");
    w.depth += 1;
    let mut byte = 0u8;
    // SAFETY: the buffer has room for one byte.
    sys::retry("read", || unsafe { libc::read(go.0, (&raw mut byte).cast(), 1) });
    w.verify_everything();
    const DOES: &[&str] =
        &["visit", "write", "heap", "map", "unmap", "remap", "dontneed", "pipe", "fork", "churn"];
    let does: Vec<&Op> = super::OPS.iter().filter(|op| DOES.contains(&op.name)).collect();
    for _ in 0..w.rng.between(1, 12) {
        let op = does[w.rng.below(does.len())];
        crate::story::op(op.name);
        (op.run)(w);
    }
    w.verify_everything();
    // SAFETY: this ends only the child process, without the parent's cleanup.
    unsafe { libc::_exit(0) }
}

/// Checks memory that a fork treats specially: memory shared with the child, and memory wiped in the child.
pub(super) fn family(w: &mut Worker) {
    let pages = w.rng.between(1, 32);
    let version = w.new_version();
    let key = |what: u64, page: usize| model::key(w.seed, what, version, page as u64);
    let shared = sys::map(pages, sys::READ_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1);
    let wiped = sys::map(pages, sys::READ_WRITE, sys::ANONYMOUS, -1);
    sys::advise(wiped, pages, libc::MADV_WIPEONFORK, false);
    for page in 0..pages {
        model::fill(sys::bytes_mut(shared + page * PAGE, PAGE), key(1, page));
        model::fill(sys::bytes_mut(wiped + page * PAGE, PAGE), key(2, page));
    }
    let check = |base: usize, page: usize, key: u64, what: &str| {
        expect(model::check(sys::bytes(base + page * PAGE, PAGE), key), what);
    };
    // SAFETY: the child uses only the two mappings, and ends itself.
    let child = sys::must(unsafe { libc::fork() }, "fork");
    if child == 0 {
        for page in 0..pages {
            check(shared, page, key(1, page), "shared with the child");
            check(wiped, page, ZEROS, "wiped in the child");
            model::fill(sys::bytes_mut(shared + page * PAGE, PAGE), key(3, page));
        }
        // SAFETY: this ends only the child process.
        unsafe { libc::_exit(0) }
    }
    sys::wait(child, "fork with shared memory");
    for page in 0..pages {
        check(shared, page, key(3, page), "written by the child");
        check(wiped, page, key(2, page), "wiped in the child, kept in the parent");
    }
    sys::unmap(shared, pages);
    sys::unmap(wiped, pages);
}

/// Starts another program from a vfork child, which uses the memory of this process until it executes the program.
pub(super) fn vfork(w: &mut Worker) {
    let program = programs::Mirror::prepare(w);
    // SAFETY: the vfork child only redirects its input and output, and calls execve with arguments prepared above.
    let child = unsafe { vfork_exec(&program) };
    sys::must(child, "vfork");
    program.talk(w);
    sys::wait(child, "vfork");
}

/// Starts the program in a child of vfork.
#[inline(never)]
#[expect(deprecated, reason = "vfork is what is tested")]
unsafe fn vfork_exec(program: &programs::Mirror) -> i32 {
    // SAFETY: as the caller says.
    unsafe {
        let child = libc::vfork();
        if child == 0 {
            program.exec();
        }
        child
    }
}
