//! Control segment: one shared file to which `unrack` writes its settings and every pager of a run writes its counts.
//!
//! All processes of a run together are one compute blade: they share the blade's local memory ([`PagerSettings::limit_pages`]) and its link
//! ([`ControlHead::downlink_free_ns`]). Every field is a plain atomic number, and no lock is ever held. Therefore a process that is killed
//! leaves only its slot behind, which `unrack` frees.

use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Magic number of the file; it includes the version of the layout.
pub const MAGIC: u64 = u64::from_le_bytes(*b"unrack\0\x08");
/// Maximum number of memory nodes of a run.
pub const MOST_NODES: usize = 8;
/// Number of process slots, which is the maximum number of processes that a run can have at a time.
pub const SLOTS: usize = 1024;
/// Environment variable with the path of the control file.
pub const CONTROL_VARIABLE: &str = "UNRACK_CONTROL";

/// Head of the control file; delay samples follow it.
#[repr(C)]
pub struct ControlHead {
    pub magic: AtomicU64,
    /// Settings, stored by `unrack` before the first process starts.
    pub settings: PagerSettings,
    pub counts: PagerCounts,
    /// Time when the blade's receiving link is free again (monotonic ns).
    pub downlink_free_ns: AtomicU64,
    /// Time when the blade's sending link is free again (monotonic ns).
    pub uplink_free_ns: AtomicU64,
    /// Number of slots that were ever taken; they are the first ones of `slots`.
    pub slots_used: AtomicU32,
    pub next_process: AtomicU32,
    pub next_thread: AtomicU32,
    /// Exit status of `unrack` if a process had to be ended; see [`ControlHead::fail`].
    pub failed: AtomicU32,
    pub message_len: AtomicU32,
    /// Number of slots that were ever freed. Together with `next_process`, which grows when a slot is taken, it shows whether the set of
    /// processes of the run has changed: [`ControlHead::generation`].
    pub departed: AtomicU32,
    pub message: [AtomicU64; 64],
    /// Traffic between the run and each memory node, in the order of [`PagerSettings::nodes`].
    pub node_counts: [NodeCounts; MOST_NODES],
    pub slots: [ProcessSlot; SLOTS],
}

/// Settings of a run.
#[repr(C)]
#[derive(Default)]
pub struct PagerSettings {
    /// Maximum number of pages that all processes together may keep local.
    pub limit_pages: AtomicU64,
    /// Latency of a fetch without its transmission, in ns.
    pub latency_ns: AtomicU64,
    /// Bandwidth of the link in bits per second; 0: transmission takes no time.
    pub bandwidth_bps: AtomicU64,
    /// Part of a fault's cost that a pager cannot measure, in ns: the time from the access to the pager, and from the pager back.
    pub unseen_ns: AtomicU64,
    /// 1: write every remote transfer to the spool folder.
    pub capture: AtomicU32,
    /// 1: handle faults in the faulting thread.
    pub fast: AtomicU32,
    /// Maximum number of pages to fetch ahead at once; 0: none.
    pub read_ahead: AtomicU32,
    /// Number of delay samples (u64 picoseconds) behind the head; 0: use `latency_ns`.
    pub samples: AtomicU64,
    pub seed: AtomicU64,
    /// Start of the run (monotonic ns).
    pub start_ns: AtomicU64,
    /// 1: `unrack` holds a lock on this file as long as it lives.
    pub is_locked: AtomicU32,
    /// 1: pagers of borrowed memory give it back.
    pub recall: AtomicU32,
    /// Number of system call filters (seccomp) that `unrack` itself runs under, such as those of a container.
    pub filters: AtomicU32,
    /// 1: programs of this run also have the system call filter that the agent installs.
    pub has_agents_filter: AtomicU32,
    /// 1: pages are copied, because the kernel cannot move them ([`crate::copies`]).
    pub copies: AtomicU32,
    /// Number of pages for which this machine has spare memory, as `unrack` last measured it. Pages that processes share since a fork are
    /// copied for a process only while enough memory is spare.
    pub spare_pages: AtomicU64,
    /// Longest time in ns that the memory node may be silent. `unrack` enforces it during the run; a pager enforces it while it waits for
    /// the node's greeting.
    pub patience_ns: AtomicU64,
    /// Longest time in ns that a node of a mirror may be silent while another one answers.
    pub spare_patience_ns: AtomicU64,
    /// 1: each page is stored at every memory node; 0: at one of them.
    pub is_mirrored: AtomicU32,
    /// Places of the memory nodes. Without any, remote pages are in a private arena.
    pub nodes: [NodePlace; MOST_NODES],
}

/// Place of a memory node.
#[repr(C)]
#[derive(Default)]
pub struct NodePlace {
    /// 0: no node, 1: a node over TCP, 2: a node over shared memory, 3: a node over TCP with encryption by `unrack run`.
    pub kind: AtomicU32,
    /// IPv4 address.
    pub address: AtomicU32,
    /// TCP port.
    pub port: AtomicU32,
    /// Path of the node's socket for shared memory, or of the socket of `unrack run`; the path ends at the first zero byte.
    pub path: [AtomicU64; 16],
}

/// What all processes of a run together got from one memory node.
#[repr(C)]
#[derive(Debug)]
pub struct NodeCounts {
    /// Number of pages that were loaded from the node.
    pub loaded: AtomicU64,
    /// Number of pages that were stored at the node.
    pub stored: AtomicU64,
    /// Time in ns during which the node owed pages to a process, summed over the processes.
    pub busy_ns: AtomicU64,
    /// Number of sessions that lost the node and went on with another one.
    lost: AtomicU32,
    reason_len: AtomicU32,
    reason: [AtomicU64; 32],
}

impl NodeCounts {
    /// Makes counts that are not in the control file.
    pub const fn new() -> NodeCounts {
        NodeCounts {
            loaded: AtomicU64::new(0),
            stored: AtomicU64::new(0),
            busy_ns: AtomicU64::new(0),
            lost: AtomicU32::new(0),
            reason_len: AtomicU32::new(0),
            reason: [const { AtomicU64::new(0) }; 32],
        }
    }

    /// Records that a session lost the node and goes on without it. If several sessions lost it, the first reason stays.
    pub fn lose(&self, reason: &str) {
        if self.lost.fetch_add(1, Relaxed) == 0 {
            store_text(&self.reason, &self.reason_len, reason);
        }
    }

    /// Returns whether a session has lost the node.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Relaxed) != 0
    }

    /// Returns the reason for which the first session lost the node; `None` if no session has lost it.
    pub fn lost(&self) -> Option<String> {
        load_text(&self.reason, &self.reason_len)
    }
}

impl Default for NodeCounts {
    fn default() -> NodeCounts {
        NodeCounts::new()
    }
}

/// Counts of events, for all processes of a run together.
#[repr(C)]
#[derive(Default)]
pub struct PagerCounts {
    /// Number of fetches for which a thread waited.
    pub fetches: AtomicU64,
    /// Number of pages fetched ahead.
    pub ahead: AtomicU64,
    /// Number of pages fetched ahead for which a thread nevertheless waited.
    pub late: AtomicU64,
    pub write_backs: AtomicU64,
    /// Number of faults on pages that were still local: second chances.
    pub soft_faults: AtomicU64,
    /// Number of first touches that the pager served.
    pub first_touches: AtomicU64,
    pub deactivations: AtomicU64,
    /// Number of pages that could not be evicted because they were pinned, locked, or shared after a fork.
    pub stuck: AtomicU64,
    /// Number of fetches whose delay was shorter than the pager's own cost.
    pub below_floor: AtomicU64,
    /// Time in ns that threads waited for fetches.
    pub wait_ns: AtomicU64,
    /// Time in ns that the pager spent on faults that a real blade would not have.
    pub overhead_ns: AtomicU64,
    /// Maximum time in ns that one thread lost to the pager itself. The time consists of the part of fetches beyond their delay, and of
    /// faults that a real blade would not have.
    pub pager_ns: AtomicU64,
    /// Number of pages brought back because a process forked.
    pub thawed: AtomicU64,
    pub scans: AtomicU64,
    /// Number of processes that ran with remote memory.
    pub processes: AtomicU64,
    /// Peak number of local pages of all processes together; a peak counts only if it lasts for a while ([`crate::peak`]).
    pub peak_local: AtomicU64,
    /// Time in ns during which clearly more pages were local than the limit allows.
    pub over_ns: AtomicU64,
    /// Number of pages, shared since a fork, that were copied for one process so that its copy can be evicted.
    pub unshared: AtomicU64,
    /// Number of times that such a copy was omitted because memory was short.
    pub kept_shared: AtomicU64,
    /// Number of processes that run with all memory local because they can have no pager.
    pub unpaged: AtomicU64,
    /// Reasons why processes have no pager, one bit for each ([`Unpaged`]).
    pub unpaged_reasons: AtomicU64,
}

/// Reason why a process continues without a pager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Unpaged {
    /// The process's parent gave up the rights, or the folder, that the pager's files need.
    Rights = 1,
    /// The process may not open more files, or may not start more threads.
    Limits = 2,
    /// The process's system calls are filtered (seccomp).
    Filter = 4,
}

/// State of one process of the run.
#[repr(C)]
pub struct ProcessSlot {
    /// Process number; 0: the slot is free.
    pub pid: AtomicU32,
    pub process: AtomicU32,
    /// Number of local pages of this process, tracked or not.
    pub local_pages: AtomicU64,
    /// Number of pages of this process whose only copy is remote.
    pub remote_pages: AtomicU64,
    /// Time when the page that has been active for longest in this process came in (monotonic ns).
    pub oldest_ns: AtomicU64,
    /// Time in ns that this process has waited for the memory node, without the time in which the process was stopped.
    pub waited_ns: AtomicU64,
    /// Reason of the current wait: [`FOR_PAGES`], [`FOR_ROOM`] or [`FOR_GREETING`].
    pub waits_for: AtomicU32,
    /// Generation of the run's processes for which `shared_pages` is valid.
    pub shared_generation: AtomicU32,
    /// Number of pages of this process that count for other processes, with which it shares them since a fork. Each page that n processes
    /// share counts as one nth for each of them. `unrack` writes the number, because it sees all processes.
    pub shared_pages: AtomicU64,
    /// 1 + index of the memory node for which the process waits; 0: any of them.
    pub waits_on: AtomicU32,
}

/// The process waits for pages that it stored at the node.
pub const FOR_PAGES: u32 = 0;
/// The process waits until the node has stored pages, so that there is room for other pages here.
pub const FOR_ROOM: u32 = 1;
/// The process waits for the node to begin a session.
pub const FOR_GREETING: u32 = 2;

/// Request at the door of the run: this thread is about to become a program to be traced.
pub const EXEC: u32 = 1;
/// Request at the door of the run: this thread is about to start a program to be traced.
pub const SPAWN: u32 = 2;
/// Request at the door of the run: this thread belongs to a pager, and wants to be traced.
pub const PAGER: u32 = 3;

impl ProcessSlot {
    /// Makes a free slot that is not in the control file.
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
            waits_on: AtomicU32::new(0),
        }
    }
}

impl ControlHead {
    /// Returns the slots that are in use.
    pub fn live_slots(&self) -> impl Iterator<Item = &ProcessSlot> + Clone {
        let used = (self.slots_used.load(Relaxed) as usize).min(SLOTS);
        self.slots[..used].iter().filter(|slot| slot.pid.load(Relaxed) != 0)
    }

    /// Frees the slots of processes that have ended. `unrack` does this as well, and also detects zombies.
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

    /// Frees the slot of a process that has ended, unless another process has taken the slot meanwhile.
    pub fn free(&self, slot: &ProcessSlot, pid: u32) {
        if slot.pid.compare_exchange(pid, 0, Relaxed, Relaxed).is_ok() {
            self.departed.fetch_add(1, Relaxed);
        }
    }

    /// Returns a number that changes whenever a process joins the run or leaves it.
    pub fn generation(&self) -> u32 {
        // The result is never 0, because a slot that was just taken has generation 0.
        self.next_process.load(Relaxed).wrapping_add(self.departed.load(Relaxed)).max(1)
    }

    /// Takes the slot that `pid` already had before `exec`, or otherwise a free slot. Returns its index, or `None` if no slot is free.
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
        slot.waits_on.store(0, Relaxed);
        slot.shared_generation.store(0, Relaxed);
        Some(found)
    }

    /// Records why this process is about to be ended, so that `unrack` can print the reason. If several reasons are recorded, the first one
    /// stays.
    pub fn fail(&self, text: &str) {
        self.fail_with(FAILED, text);
    }

    /// Records, like [`ControlHead::fail`], that this program cannot be run with remote memory.
    pub fn fail_lacking(&self, text: &str) {
        self.fail_with(LACKING, text);
    }

    /// Counts a process that continues without a pager, and records the reason.
    pub fn note_unpaged(&self, why: Unpaged) {
        count(&self.counts.unpaged, 1);
        self.counts.unpaged_reasons.fetch_or(why as u64, Relaxed);
    }

    fn fail_with(&self, status: u32, text: &str) {
        if self.failed.compare_exchange(0, status, Relaxed, Relaxed).is_err() {
            return;
        }
        store_text(&self.message, &self.message_len, text);
    }

    /// Returns whether the recorded reason comes from [`ControlHead::fail_lacking`].
    pub fn is_lacking(&self) -> bool {
        self.failed.load(Relaxed) == LACKING
    }

    /// Returns the reason that [`ControlHead::fail`] recorded.
    pub fn failure(&self) -> Option<String> {
        load_text(&self.message, &self.message_len)
    }
}

/// Stores a text in words, as far as it fits. Its length is stored last, so that a reader never sees a part of the text.
fn store_text(words: &[AtomicU64], len: &AtomicU32, text: &str) {
    let bytes = &text.as_bytes()[..text.len().min(words.len() * 8)];
    for (word, chunk) in words.iter().zip(bytes.chunks(8)) {
        let mut padded = [0u8; 8];
        padded[..chunk.len()].copy_from_slice(chunk);
        word.store(u64::from_le_bytes(padded), Relaxed);
    }
    len.store(bytes.len() as u32, core::sync::atomic::Ordering::Release);
}

/// Returns the text that [`store_text`] stored; `None` if there is none.
fn load_text(words: &[AtomicU64], len: &AtomicU32) -> Option<String> {
    let len = len.load(core::sync::atomic::Ordering::Acquire) as usize;
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
    (len > 0).then(|| String::from_utf8_lossy(&bytes[..len.min(bytes.len())]).into_owned())
}

/// Exit statuses: of a failure during the run, and of a program that lacks a requirement.
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

    /// The pager and the command may be of different builds. Therefore a change of the layout needs another number in [`MAGIC`].
    #[test]
    fn the_layout_of_version_8_stays() {
        use core::mem::offset_of;
        assert_eq!(MAGIC.to_le_bytes(), *b"unrack\0\x08");
        let head = [
            offset_of!(ControlHead, magic),
            offset_of!(ControlHead, settings),
            offset_of!(ControlHead, counts),
            offset_of!(ControlHead, downlink_free_ns),
            offset_of!(ControlHead, slots_used),
            offset_of!(ControlHead, message),
            offset_of!(ControlHead, node_counts),
            offset_of!(ControlHead, slots),
            size_of::<ControlHead>(),
        ];
        let sizes = [
            size_of::<PagerSettings>(),
            size_of::<PagerCounts>(),
            size_of::<NodePlace>(),
            size_of::<NodeCounts>(),
            size_of::<ProcessSlot>(),
        ];
        assert_eq!(
            (head, sizes),
            ([0, 8, 1288, 1456, 1472, 1496, 2008, 4312, 69_848], [1280, 168, 144, 288, 64])
        );
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
    fn the_first_reason_for_which_a_node_was_lost_stays() {
        let counts = NodeCounts::new();
        assert_eq!((counts.is_lost(), counts.lost()), (false, None));
        counts.lose("the memory node at 10.0.0.2:7000 closed the connection");
        counts.lose("later");
        assert_eq!(counts.lost().unwrap(), "the memory node at 10.0.0.2:7000 closed the connection");
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
