//! Memory to which all threads write: pages protected by locks, and counters without locks.

use crate::model::{self, ZEROS};
use crate::story::{expect, fail};
use crate::sys;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use unrack_basis::{PAGE, mix_13};

/// Number of pages that one lock protects.
const STRIPE: usize = 32;

/// Owner in the keys of shared pages. It differs from the id of every region.
const OWNER: u64 = u64::MAX;

/// Shared pages and counters.
pub(crate) struct SharedPages {
    seed: u64,
    base: usize,
    counters: usize,
    pub counter_count: usize,
    /// Version of each page, by stripe. The version is the number of writes to the page.
    stripes: Vec<Mutex<[u64; STRIPE]>>,
    /// Held for reading while threads start or end, and for writing while a child process is created.
    threads: RwLock<()>,
    /// Barrier for all workers, before the first operation and after the last one.
    workers: Barrier,
}

/// Bytes between counters. Only one word in 64 is used, so that the counters occupy several pages.
const COUNTER_STEP: usize = 64 * 8;

impl SharedPages {
    /// Maps at least `pages` pages, and as many pages of counters as there are stripes, for `workers` workers.
    pub(crate) fn map(seed: u64, pages: usize, workers: usize) -> SharedPages {
        let stripes = pages.div_ceil(STRIPE).max(1);
        let base = sys::map(stripes * STRIPE, sys::READ_WRITE, sys::ANONYMOUS, -1);
        let counters = sys::map(stripes, sys::READ_WRITE, sys::ANONYMOUS, -1);
        let stripes: Vec<_> = (0..stripes).map(|_| Mutex::new([0; STRIPE])).collect();
        SharedPages {
            seed,
            base,
            counters,
            counter_count: stripes.len() * PAGE / COUNTER_STEP,
            stripes,
            threads: RwLock::new(()),
            workers: Barrier::new(workers),
        }
    }

    /// Prevents the creation of child processes while the guard lives, so that threads can start and end. This is necessary because Rust's
    /// library holds a lock while a thread starts or ends. A child would inherit the lock in locked state, and its own threads would wait
    /// forever.
    pub(crate) fn with_threads(&self) -> RwLockReadGuard<'_, ()> {
        self.threads.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no thread is starting or ending, and prevents both while the guard lives.
    pub(crate) fn with_child(&self) -> RwLockWriteGuard<'_, ()> {
        self.threads.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for all workers, so that all their threads have started and none has ended.
    pub(crate) fn meet(&self) {
        self.workers.wait();
    }

    /// Returns the number of pages.
    pub(crate) fn pages(&self) -> usize {
        self.stripes.len() * STRIPE
    }

    /// Checks a page, and writes its next version.
    pub(crate) fn bump(&self, page: usize) {
        let mut versions = self.lock(page / STRIPE);
        self.check(page, versions[page % STRIPE]);
        versions[page % STRIPE] += 1;
        model::fill(sys::bytes_mut(self.base + page * PAGE, PAGE), self.key(page, versions[page % STRIPE]));
    }

    /// Adds to a counter without a lock.
    pub(crate) fn add(&self, counter: usize, n: u64) {
        self.counter(counter).fetch_add(n, Ordering::Relaxed);
    }

    /// Stops all writers of pages while the guards live, as `pthread_atfork` handlers do.
    pub(crate) fn freeze(&self) -> Vec<MutexGuard<'_, [u64; STRIPE]>> {
        (0..self.stripes.len()).map(|stripe| self.lock(stripe)).collect()
    }

    /// Checks every page. The guards prove that no page is being written.
    pub(crate) fn verify(&self, frozen: &[MutexGuard<'_, [u64; STRIPE]>]) {
        for (stripe, versions) in frozen.iter().enumerate() {
            for (i, &version) in versions.iter().enumerate() {
                self.check(stripe * STRIPE + i, version);
            }
        }
    }

    /// Compares the counters with the sums that the threads added.
    pub(crate) fn verify_counters(&self, added: &[u64]) {
        for (i, &expected) in added.iter().enumerate() {
            let found = self.counter(i).load(Ordering::Relaxed);
            if found != expected {
                fail(format_args!("shared counter {i}: expected {expected}, found {found}"));
            }
        }
    }

    /// Returns a number that depends on the versions of all pages.
    pub(crate) fn digest(&self) -> u64 {
        self.freeze().iter().flat_map(|versions| versions.iter()).fold(0, |d, v| mix_13(d ^ v))
    }

    fn lock(&self, stripe: usize) -> MutexGuard<'_, [u64; STRIPE]> {
        self.stripes[stripe].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, page: usize, version: u64) -> u64 {
        if version == 0 { ZEROS } else { model::key(self.seed, OWNER, version, page as u64) }
    }

    fn check(&self, page: usize, version: u64) {
        let found = sys::bytes(self.base + page * PAGE, PAGE);
        expect(
            model::check(found, self.key(page, version)),
            format_args!("shared page {page}, version {version}"),
        );
    }

    fn counter(&self, i: usize) -> &AtomicU64 {
        // SAFETY: the word is inside the mapping, is aligned, lives as long as the process, and is only used as an atomic.
        unsafe { &*((self.counters + i * COUNTER_STEP) as *const AtomicU64) }
    }
}
