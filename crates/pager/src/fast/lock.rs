//! The lock of fast mode, around the [`Engine`].
//!
//! It is held for microseconds, and only where no handler of the program can run: in our own handlers, which
//! block all signals, and on the tick thread, which never receives any. Waiting threads spin.

use super::engine::Engine;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Number of spins before yielding: longer than most holders need, if each has a core.
const SPINS: u32 = 300;

struct Locked {
    held: AtomicBool,
    engine: UnsafeCell<Option<Engine>>,
}

// SAFETY: `engine` is only touched while `held` is ours.
unsafe impl Sync for Locked {}

static LOCKED: Locked = Locked { held: AtomicBool::new(false), engine: UnsafeCell::new(None) };

/// Access to the engine, which ends when dropped.
pub struct Held(&'static mut Engine);

/// Waits for the engine, which [`put`] installed.
pub fn lock() -> Held {
    acquire();
    // SAFETY: the lock is ours.
    let engine = unsafe { &mut *LOCKED.engine.get() };
    Held(engine.as_mut().expect("the engine was put there at start"))
}

/// Installs the engine at start, before any thread can ask for it.
pub fn put(engine: Engine) {
    acquire();
    // SAFETY: the lock is ours.
    unsafe { *LOCKED.engine.get() = Some(engine) };
    LOCKED.held.store(false, Release);
}

/// Forgets the engine in the child of a fork, which holds the lock: it was its parent's.
pub fn forget(held: Held) {
    std::mem::forget(held);
    // SAFETY: the lock is ours, and this process has no other thread.
    std::mem::forget(unsafe { (*LOCKED.engine.get()).take() });
    LOCKED.held.store(false, Release);
}

fn acquire() {
    let mut spins = 0;
    while LOCKED.held.swap(true, Acquire) {
        while LOCKED.held.load(Relaxed) {
            spins += 1;
            if spins % SPINS == 0 { rustix::thread::sched_yield() } else { std::hint::spin_loop() }
        }
    }
}

impl Deref for Held {
    type Target = Engine;
    fn deref(&self) -> &Engine {
        self.0
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut Engine {
        self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        LOCKED.held.store(false, Release);
    }
}
