//! Control segment: one shared file to which `unrack` writes its settings and every pager of a run its counts.
//!
//! All processes of a run together are one compute blade: they share its local memory ([`Settings::limit_pages`])
//! and its link ([`ControlHead::downlink_free_ns`]). Everything is a plain atomic number and no lock is ever held, so
//! a process that is killed leaves nothing behind but its slot, which `unrack` frees.

use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Magic number of the file, with its version.
pub const MAGIC: u64 = u64::from_le_bytes(*b"unrack\0\x06");
/// Number of slots: most processes of a run at a time.
pub const SLOTS: usize = 1024;
/// Environment variable with the path of the control file.
pub const CONTROL_VARIABLE: &str = "UNRACK_CONTROL";

/// Head of the file; delay samples follow it.
#[repr(C)]
pub struct ControlHead {
    pub magic: AtomicU64,
    /// Settings, stored by `unrack` before the first process starts.
    pub settings: Settings,
    pub counts: PagerCounts,
    /// Time when the blade's receiving link is free again (monotonic ns); below, its sending link.
    pub downlink_free_ns: AtomicU64,
    pub uplink_free_ns: AtomicU64,
    /// Number of slots that were ever taken, from the first.
    pub slots_used: AtomicU32,
    pub next_process: AtomicU32,
    pub next_thread: AtomicU32,
    /// Exit status of `unrack` if a process had to be ended; see [`ControlHead::fail`].
    pub failed: AtomicU32,
    pub message_len: AtomicU32,
    /// Number of slots that were ever freed. With `next_process`, which grows when one is taken, it tells whether the
    /// processes of the run are the same as before: [`ControlHead::generation`].
    pub departed: AtomicU32,
    pub message: [AtomicU64; 64],
    pub slots: [ProcessSlot; SLOTS],
}

/// Settings of a run.
#[repr(C)]
#[derive(Default)]
pub struct Settings {
    /// Most pages that all processes together may keep local.
    pub limit_pages: AtomicU64,
    /// Latency of a fetch without its transmission, in ns.
    pub latency_ns: AtomicU64,
    /// Bits per second; 0: transmission takes no time.
    pub bandwidth_bps: AtomicU64,
    /// Part of a fault's cost that a pager cannot see, in ns: from the access to the pager, and back.
    pub unseen_ns: AtomicU64,
    /// 1: write every remote transfer to the spool folder.
    pub capture: AtomicU32,
    /// 1: handle faults in the faulting thread.
    pub fast: AtomicU32,
    /// Most pages to fetch ahead at once; 0: none.
    pub read_ahead: AtomicU32,
    /// Number of delay samples (u64 picoseconds) behind the head; 0: use `latency_ns`.
    pub samples: AtomicU64,
    pub seed: AtomicU64,
    /// Start of the run (monotonic ns).
    pub start_ns: AtomicU64,
    /// Kind of remote memory: 0 a private arena, 1 a node over TCP, 2 a node over shared memory, 3 a node over
    /// TCP to which `unrack run` encrypts.
    pub backend: AtomicU32,
    /// IPv4 address of the node; below, its TCP port.
    pub node_address: AtomicU32,
    pub node_port: AtomicU32,
    /// 1: `unrack` holds a lock on this file as long as it lives.
    pub is_locked: AtomicU32,
    /// 1: pagers of borrowed memory give it back.
    pub recall: AtomicU32,
    /// Number of filters of system calls (seccomp) on `unrack` itself, such as those of a container.
    pub filters: AtomicU32,
    /// 1: programs of this run have the filter of the agent as well.
    pub has_agents_filter: AtomicU32,
    /// Pages that there is memory for, by `unrack`'s last look. Pages that processes share since a fork are copied for each
    /// only as long as there are more.
    pub spare_pages: AtomicU64,
    /// Longest time in ns that the memory node may be silent. `unrack` enforces it; pagers do while they wait to
    /// be greeted.
    pub patience_ns: AtomicU64,
    /// Path of the node's socket for shared memory, or of the socket of `unrack run`; ends at the first zero
    /// byte.
    pub node_path: [AtomicU64; 16],
}

/// Counts of events, for all processes together.
#[repr(C)]
#[derive(Default)]
pub struct PagerCounts {
    /// Fetches for which a thread waited.
    pub fetches: AtomicU64,
    /// Pages fetched ahead; below, those for which a thread waited all the same.
    pub ahead: AtomicU64,
    pub late: AtomicU64,
    pub write_backs: AtomicU64,
    /// Faults on pages that were still local: second chances.
    pub soft_faults: AtomicU64,
    /// First touches that the pager served.
    pub first_touches: AtomicU64,
    pub deactivations: AtomicU64,
    /// Pages that could not be taken (pinned, locked, shared after a fork).
    pub stuck: AtomicU64,
    /// Fetches whose delay was shorter than the pager's own cost.
    pub below_floor: AtomicU64,
    /// Time in ns that threads waited for fetches; below, the part of it that was the pager's own work.
    pub wait_ns: AtomicU64,
    pub work_ns: AtomicU64,
    /// Pager time in ns for faults that a real blade would not have.
    pub overhead_ns: AtomicU64,
    /// Most time in ns that one thread lost to the pager itself: fetches that took longer than their delay, and faults
    /// that a real blade would not have.
    pub pager_ns: AtomicU64,
    /// Pages brought back because a process forked.
    pub thawed: AtomicU64,
    pub scans: AtomicU64,
    /// Processes that ran with remote memory.
    pub processes: AtomicU64,
    /// Most pages that were local at once, of all processes together, for a while ([`crate::peak`]).
    pub peak_local: AtomicU64,
    /// Time in ns for which clearly more pages were local than may be.
    pub over_ns: AtomicU64,
    /// Pages copied for one process because they were shared since a fork, so that its copy can be taken; below, times that
    /// they were not, since memory was short.
    pub unshared: AtomicU64,
    pub kept_shared: AtomicU64,
    /// Processes that go on with all memory local because they can have no pager; below, the reasons, a bit for each
    /// ([`Unpaged`]).
    pub unpaged: AtomicU64,
    pub unpaged_reasons: AtomicU64,
}

/// Reason why a process goes on without a pager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Unpaged {
    /// Its parent gave up the rights, or the folder, that the pager's files need.
    Rights = 1,
    /// It may open no more files, or start no more threads.
    Limits = 2,
    /// Its system calls are filtered (seccomp).
    Filter = 4,
}

/// State of one process of the run.
#[repr(C)]
pub struct ProcessSlot {
    /// Process number; 0: the slot is free.
    pub pid: AtomicU32,
    pub process: AtomicU32,
    /// Number of local pages, tracked or not.
    pub local_pages: AtomicU64,
    /// Number of pages whose only copy is remote.
    pub remote_pages: AtomicU64,
    /// Time when its longest-held active page came in (monotonic ns).
    pub oldest_ns: AtomicU64,
    /// Time in ns that it has waited for the memory node, without the time in which it was stopped.
    pub waited_ns: AtomicU64,
    /// Object of the wait: [`FOR_PAGES`], [`FOR_ROOM`] or [`FOR_GREETING`].
    pub waits_for: AtomicU32,
    /// Generation of processes for which `shared_pages` is true.
    pub shared_generation: AtomicU32,
    /// Pages of this process that count for the others with which it shares them since a fork: each page that n
    /// processes share counts one nth for each. Written by `unrack`, which sees all processes.
    pub shared_pages: AtomicU64,
}

/// Waits for pages that it stored at the node.
pub const FOR_PAGES: u32 = 0;
/// Waits for the node to take pages, so that there is room for others here.
pub const FOR_ROOM: u32 = 1;
/// Waits for the node to begin a session.
pub const FOR_GREETING: u32 = 2;

/// Question at the door: this thread is about to become a program to be traced; below, to start one; below, is a pager's.
pub const EXEC: u32 = 1;
pub const SPAWN: u32 = 2;
pub const PAGER: u32 = 3;

impl ProcessSlot {
    /// Makes a free slot, outside of the file.
    pub(crate) const fn new() -> ProcessSlot {
        ProcessSlot {
            pid: AtomicU32::new(0),
            process: AtomicU32::new(0),
            local_pages: AtomicU64::new(0),
            remote_pages: AtomicU64::new(0),
            oldest_ns: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            waits_for: AtomicU32::new(0),
            shared_generation: AtomicU32::new(0),
            shared_pages: AtomicU64::new(0),
        }
    }
}

impl ControlHead {
    /// Returns the slots that are in use.
    pub fn live_slots(&self) -> impl Iterator<Item = &ProcessSlot> + Clone {
        let used = (self.slots_used.load(Relaxed) as usize).min(SLOTS);
        self.slots[..used].iter().filter(|slot| slot.pid.load(Relaxed) != 0)
    }

    /// Frees the slots of processes that have ended. (`unrack` does, too, and also detects zombies.)
    pub fn bury(&self) {
        for slot in self.live_slots() {
            let raw = slot.pid.load(Relaxed);
            let gone = rustix::process::Pid::from_raw(raw as i32)
                .is_none_or(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH));
            if gone {
                self.free(slot, raw);
            }
        }
    }

    /// Frees the slot of a process that has ended, unless another process has taken it meanwhile.
    pub fn free(&self, slot: &ProcessSlot, pid: u32) {
        if slot.pid.compare_exchange(pid, 0, Relaxed, Relaxed).is_ok() {
            self.departed.fetch_add(1, Relaxed);
        }
    }

    /// Returns a number that changes whenever a process joins the run or leaves it.
    pub fn generation(&self) -> u32 {
        // Never the 0 of a slot that was just taken.
        self.next_process.load(Relaxed).wrapping_add(self.departed.load(Relaxed)).max(1)
    }

    /// Takes the slot of `pid`, left by the program it ran before `exec`, or a free one.
    pub fn take_slot(&self, pid: u32) -> Option<usize> {
        let take = |slot: &&ProcessSlot, from| slot.pid.compare_exchange(from, pid, Relaxed, Relaxed).is_ok();
        let found = self
            .slots
            .iter()
            .position(|slot| take(&slot, pid))
            .or_else(|| self.slots.iter().position(|slot| take(&slot, 0)))?;
        self.slots_used.fetch_max(found as u32 + 1, Relaxed);
        let slot = &self.slots[found];
        slot.process.store(self.next_process.fetch_add(1, Relaxed), Relaxed);
        slot.local_pages.store(0, Relaxed);
        slot.remote_pages.store(0, Relaxed);
        slot.oldest_ns.store(u64::MAX, Relaxed);
        slot.waited_ns.store(0, Relaxed);
        slot.shared_generation.store(0, Relaxed);
        Some(found)
    }

    /// Records why this process is about to be ended, for `unrack` to print. The first reason stays.
    pub fn fail(&self, text: &str) {
        self.fail_with(FAILED, text);
    }

    /// Records, as [`ControlHead::fail`] does, that this program cannot be run with remote memory.
    pub fn fail_lacking(&self, text: &str) {
        self.fail_with(LACKING, text);
    }

    /// Counts a process that goes on without a pager.
    pub fn note_unpaged(&self, why: Unpaged) {
        count(&self.counts.unpaged, 1);
        self.counts.unpaged_reasons.fetch_or(why as u64, Relaxed);
    }

    fn fail_with(&self, status: u32, text: &str) {
        if self.failed.compare_exchange(0, status, Relaxed, Relaxed).is_err() {
            return;
        }
        let bytes = &text.as_bytes()[..text.len().min(self.message.len() * 8)];
        for (word, chunk) in self.message.iter().zip(bytes.chunks(8)) {
            let mut padded = [0u8; 8];
            padded[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(padded), Relaxed);
        }
        self.message_len.store(bytes.len() as u32, core::sync::atomic::Ordering::Release);
    }

    /// Returns whether the recorded reason is one of [`ControlHead::fail_lacking`].
    pub fn is_lacking(&self) -> bool {
        self.failed.load(Relaxed) == LACKING
    }

    /// Returns the reason that [`ControlHead::fail`] recorded.
    pub fn failure(&self) -> Option<String> {
        let len = self.message_len.load(core::sync::atomic::Ordering::Acquire) as usize;
        let bytes: Vec<u8> = self.message.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
        (len > 0).then(|| String::from_utf8_lossy(&bytes[..len.min(bytes.len())]).into_owned())
    }
}

/// Exit statuses: a failure while running; a lack of something that is needed.
const FAILED: u32 = 1;
const LACKING: u32 = 3;

/// Adds `n` to a counter.
pub fn count(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zeroed() -> Box<ControlHead> {
        // SAFETY: all fields are atomics, for which zero is valid.
        unsafe { Box::new(std::mem::zeroed()) }
    }

    /// Pager and command may be of different builds: a change needs another number in [`MAGIC`].
    #[test]
    fn the_layout_of_version_6_stays() {
        use core::mem::offset_of;
        assert_eq!(MAGIC.to_le_bytes(), *b"unrack\0\x06");
        let head = [
            offset_of!(ControlHead, magic),
            offset_of!(ControlHead, settings),
            offset_of!(ControlHead, counts),
            offset_of!(ControlHead, downlink_free_ns),
            offset_of!(ControlHead, slots_used),
            offset_of!(ControlHead, message),
            offset_of!(ControlHead, slots),
            size_of::<ControlHead>(),
        ];
        let sizes = [size_of::<Settings>(), size_of::<PagerCounts>(), size_of::<ProcessSlot>()];
        assert_eq!((head, sizes), ([0, 8, 256, 432, 448, 472, 984, 58_328], [248, 176, 56]));
    }

    #[test]
    fn the_first_failure_is_kept_whole() {
        let control = zeroed();
        assert_eq!(control.failure(), None);
        control.fail("the memory node at 127.0.0.1:7000 closed the connection");
        control.fail_lacking("later");
        assert!(!control.is_lacking());
        assert_eq!(control.failure().unwrap(), "the memory node at 127.0.0.1:7000 closed the connection");
    }

    #[test]
    fn a_process_keeps_its_slot_over_exec_and_others_do_not_take_it() {
        let control = zeroed();
        let first = control.take_slot(10).unwrap();
        let second = control.take_slot(11).unwrap();
        assert_ne!(first, second);
        assert_eq!(control.take_slot(10), Some(first));
        control.slots[first].pid.store(0, Relaxed);
        assert_eq!(control.take_slot(12), Some(first));
    }

    #[test]
    fn only_the_dead_are_buried() {
        let control = zeroed();
        let living = control.take_slot(std::process::id()).unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = control.take_slot(child.id()).unwrap();
        child.wait().unwrap();
        control.bury();
        assert_eq!(control.slots[dead].pid.load(Relaxed), 0);
        assert_eq!(control.slots[living].pid.load(Relaxed), std::process::id());
    }
}
