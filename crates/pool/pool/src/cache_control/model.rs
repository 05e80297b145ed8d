//! Incoherent memory for tests: every host has separate copies, which stay stale.
//!
//! A host loads and stores in private memory, its *cache*; the *device* is the memory that hosts share. Publishing or
//! refreshing a line copies the whole line between the two. In addition, lines that were not published are written back
//! at random (an eviction), and lines that were not refreshed are fetched at random (a prefetch); a seed determines
//! these events. Other hosts never see stores that are neither published nor evicted, and such stores are lost with
//! their host.
//!
//! Therefore a protocol fails in this model if it forgets to publish or refresh, or if two hosts write one line. It
//! also fails if it assumes that a line stays unchanged after a refresh, or that a line remains invisible until it is
//! published.

use super::{LINE, SharedMemory, lines};
use crate::sync::{AtomicU64, Ordering};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use unrack_basis::{PAGE, SplitMix64};

const WORDS: usize = LINE / 8;
/// Number of recently used lines. Random events happen to these lines and to others on the same pages.
const RECENT: usize = 32;

type Line = [u64; WORDS];

/// One host of a model of incoherent memory.
#[derive(Clone)]
pub struct IncoherentModel(Arc<Host>);

struct Host {
    /// Address of the memory in which the host loads and stores.
    cache: usize,
    /// Address of the same bytes on the device, which hosts share.
    device: usize,
    bytes: usize,
    state: Mutex<State>,
}

struct State {
    random: SplitMix64,
    /// Contents of each line when cache and device last agreed; zeros if they never did.
    clean: HashMap<usize, Line>,
    /// Lines that were used recently, in no particular order.
    recent: Vec<usize>,
}

impl IncoherentModel {
    /// Makes a host whose random events depend on `seed`.
    ///
    /// # Safety
    /// Each pointer leads to `bytes` bytes and stays valid while this model or a clone of it is used. The memory at
    /// `cache` belongs to this host alone, and was zero at first. Parts may be unmapped as long as they are not used.
    pub unsafe fn new(cache: *mut u8, device: *mut u8, bytes: usize, seed: u64) -> IncoherentModel {
        assert!((cache as usize | device as usize).is_multiple_of(LINE));
        let state = State { random: SplitMix64::new(seed), clean: HashMap::new(), recent: Vec::new() };
        IncoherentModel(Arc::new(Host {
            cache: cache as usize,
            device: device as usize,
            bytes,
            state: Mutex::new(state),
        }))
    }

    /// Stops the host, so that all stores that it did not publish are lost.
    pub fn power_off(&self) {
        let host = &self.0;
        let mut state = host.state();
        let state = &mut *state;
        for line in 0..host.bytes / LINE {
            let clean = state.clean.get(&line).copied().unwrap_or_default();
            for (word, clean) in host.cached(line).iter().zip(clean) {
                word.store(clean, Ordering::Relaxed);
            }
        }
    }

    /// Removes the records of a range that is about to be unmapped.
    pub fn forget(&self, at: *const u8, bytes: usize) {
        let range = self.0.lines(at, bytes);
        let mut state = self.0.state();
        state.recent.retain(|line| !range.contains(line));
        state.clean.retain(|line, _| !range.contains(line));
    }
}

impl SharedMemory for IncoherentModel {
    unsafe fn publish(&self, at: *const u8, bytes: usize) {
        let host = &self.0;
        let mut state = host.state();
        for line in host.lines(at, bytes) {
            // The line is written even if its contents are unchanged, because the host may have stored the same
            // contents as before.
            host.write(&mut state, line);
            state.used(line);
        }
        host.happen(&mut state);
    }

    unsafe fn refresh(&self, at: *const u8, bytes: usize) {
        let host = &self.0;
        let mut state = host.state();
        host.happen(&mut state);
        for line in host.lines(at, bytes) {
            // A dirty line is written back first, as `clflush` does.
            host.write_back(&mut state, line);
            host.fetch(&mut state, line);
            state.used(line);
        }
    }

    fn load(&self, entry: &AtomicU64) -> u64 {
        // SAFETY: a reference is mapped, and `refresh` refuses an address outside the model.
        unsafe { self.refresh(std::ptr::from_ref(entry).cast(), 8) };
        entry.load(Ordering::Acquire)
    }

    fn store(&self, entry: &AtomicU64, value: u64) {
        self.0.happen(&mut self.0.state());
        entry.store(value, Ordering::Release);
        // SAFETY: a reference is mapped, and `publish` refuses an address outside the model.
        unsafe { self.publish(std::ptr::from_ref(entry).cast(), 8) };
    }
}

impl Host {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lines(&self, at: *const u8, bytes: usize) -> std::ops::Range<usize> {
        let (first, count) = lines(at, bytes);
        let first = (first as usize).wrapping_sub(self.cache);
        assert!(
            first < self.bytes && count * LINE <= self.bytes - first,
            "memory that is not this host's share of the pool goes through its cache control"
        );
        first / LINE..first / LINE + count
    }

    fn words(&self, base: usize, line: usize) -> &[AtomicU64; WORDS] {
        // SAFETY: by the contract of `new`, the base is valid as long as this host. Lines come from `lines`, whose
        // callers guarantee that they are mapped, or share a page with such a line. Atomics may be shared.
        unsafe { &*((base + line * LINE) as *const [AtomicU64; WORDS]) }
    }

    fn cached(&self, line: usize) -> &[AtomicU64; WORDS] {
        self.words(self.cache, line)
    }

    fn on_device(&self, line: usize) -> &[AtomicU64; WORDS] {
        self.words(self.device, line)
    }

    /// Writes the whole line back if the host has changed it.
    fn write_back(&self, state: &mut State, line: usize) {
        let clean = state.clean.get(&line).copied().unwrap_or_default();
        if self.now(line) != clean {
            self.write(state, line);
        }
    }

    fn write(&self, state: &mut State, line: usize) {
        let now = self.now(line);
        for (to, word) in self.on_device(line).iter().zip(now) {
            to.store(word, Ordering::Release);
        }
        state.clean.insert(line, now);
    }

    /// Returns the contents of a line as the host sees them.
    fn now(&self, line: usize) -> Line {
        std::array::from_fn(|word| self.cached(line)[word].load(Ordering::Acquire))
    }

    /// Copies a line from the device to the cache, except words that a thread of this host is storing to.
    fn fetch(&self, state: &mut State, line: usize) {
        let clean = state.clean.entry(line).or_default();
        for (word, clean) in clean.iter_mut().enumerate() {
            let now = self.on_device(line)[word].load(Ordering::Acquire);
            let held = &self.cached(line)[word];
            if held.compare_exchange(*clean, now, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                *clean = now;
            }
        }
    }

    /// Makes a random event of the cache happen: it evicts a line, dirty or clean, or fetches it again.
    fn happen(&self, state: &mut State) {
        const PAGE_LINES: usize = PAGE / LINE;
        let drawn = state.random.next_u64();
        if drawn & 1 == 0 || state.recent.is_empty() {
            return;
        }
        let near = state.recent[(drawn >> 8) as usize % state.recent.len()];
        // In half of the cases, another line of the page is chosen, which may have been written and not published yet.
        let line = match drawn >> 1 & 1 {
            0 => near,
            _ => near / PAGE_LINES * PAGE_LINES + (drawn >> 32) as usize % PAGE_LINES,
        };
        if line >= self.bytes / LINE {
            return;
        }
        self.write_back(state, line);
        if drawn >> 2 & 1 == 0 {
            self.fetch(state, line);
        }
    }
}

impl State {
    fn used(&mut self, line: usize) {
        let drawn = self.random.next_u64() as usize;
        match self.recent.len() {
            RECENT => self.recent[drawn % RECENT] = line,
            _ => self.recent.push(line),
        }
    }
}

/// Shared memory of hosts that are threads of a test.
pub struct Device {
    bytes: usize,
    memory: Arc<ZeroedMemory>,
}

/// One host's view of a [`Device`].
pub struct DeviceView {
    pub memory: IncoherentModel,
    cache: ZeroedMemory,
    _device: Arc<ZeroedMemory>,
}

impl Device {
    /// Makes a device of this many bytes, rounded up to whole pages.
    pub fn new(bytes: usize) -> Device {
        let bytes = bytes.next_multiple_of(PAGE);
        Device { bytes, memory: Arc::new(ZeroedMemory::new(bytes)) }
    }

    /// Adds a host, with an empty cache.
    pub fn host(&self, seed: u64) -> DeviceView {
        let cache = ZeroedMemory::new(self.bytes);
        // SAFETY: the view keeps the cache and the device, and tests use clones of its model only while the view lives.
        let memory = unsafe { IncoherentModel::new(cache.base(), self.memory.base(), self.bytes, seed) };
        DeviceView { memory, cache, _device: self.memory.clone() }
    }
}

impl DeviceView {
    /// Returns the address of the device's first byte in this host.
    pub fn base(&self) -> *mut u8 {
        self.cache.base()
    }

    /// Returns the entry at a byte offset, which must be a multiple of 8.
    pub fn entry(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset < self.cache.0.len() * LINE);
        // SAFETY: the entry is inside the view's memory and aligned. Atomics may be shared.
        unsafe { &*(self.base().add(offset) as *const AtomicU64) }
    }
}

#[repr(align(64))]
struct Zero(#[allow(dead_code)] [AtomicU64; WORDS]);

struct ZeroedMemory(Box<[Zero]>);

impl ZeroedMemory {
    fn new(bytes: usize) -> ZeroedMemory {
        ZeroedMemory((0..bytes / LINE).map(|_| Zero(Default::default())).collect())
    }

    fn base(&self) -> *mut u8 {
        self.0.as_ptr() as *mut u8
    }
}
