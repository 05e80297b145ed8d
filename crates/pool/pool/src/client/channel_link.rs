//! State of a channel: the thread that reads the manager's messages writes it, and the user of the channel reads it.

use crate::space::MappedSpace;
use crate::wakeups::PeerWakeups;
use crate::wire::{Access, Cause, ChannelId, Extent, OpenedChannel, PeerProcess};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Maximum number of segments that one side of a channel may grant to the other (equal to the manager's limit).
const MOST_GRANTED: usize = 256;

/// Greeting that one side of a channel sends to the other when the channel is opened.
#[derive(Debug)]
pub struct ChannelGreeting {
    pub bytes: Vec<u8>,
    pub passed: Vec<OwnedFd>,
}

/// State of a channel, shared by the thread that reads the manager's messages and the user of the channel.
pub(super) struct ChannelLink {
    pub(super) id: ChannelId,
    pub(super) peer: PeerProcess,
    pub(super) queues: Extent,
    pub(super) wakeups: PeerWakeups,
    pub(super) peer_wakeup: usize,
    /// True if the peer can be woken.
    pub(super) rings: bool,
    own_wakeup: AtomicU32,
    gone: AtomicU32,
    granted: Box<[GrantedSegment]>,
    /// Number of entries of `granted` that have ever been used.
    count: AtomicU32,
    /// Index of the entry in which an offset was last found.
    last: AtomicU32,
    /// True once everything that was received by the channel is unmapped. The lock is held while a segment is mapped,
    /// so that no segment is mapped after that point, and while a segment is pinned, unpinned or withdrawn.
    unmapped: Mutex<bool>,
    /// True if a withdrawn segment must be unmapped as soon as no part of it is pinned.
    pub(super) unmaps_withdrawn: AtomicBool,
}

/// A granted segment. The thread that reads the manager's messages writes it, with `end` last; a withdrawn segment has
/// an `end` of zero.
#[derive(Default)]
struct GrantedSegment {
    start: AtomicU64,
    /// End of the segment, a multiple of the page size. The lowest bit is set if this side may write the segment.
    end: AtomicU64,
    /// End of the mapping. It remains after the segment was withdrawn, and becomes zero when the segment is unmapped;
    /// then the entry is free.
    mapped: AtomicU64,
    /// Number of pins in the segment.
    pins: AtomicU32,
}

impl ChannelLink {
    /// Maps the queue area and the wakeups of a new channel.
    pub(super) fn new(
        space: &MappedSpace,
        opened: OpenedChannel,
        mut beside: Vec<OwnedFd>,
    ) -> rustix::io::Result<(ChannelLink, ChannelGreeting)> {
        // The manager sends a descriptor of the queue area unless the area is in a device, and one of the wakeups unless
        // the peer is on another host.
        let is_far = opened.peer.is_far();
        let own = usize::from(!space.is_whole()) + usize::from(!is_far);
        if beside.len() < own {
            // The manager did send the descriptors, so a missing one means that this process has reached its limit of
            // open descriptors.
            return Err(Errno::MFILE);
        }
        let passed = beside.split_off(own);
        let wakeups = match is_far {
            true => PeerWakeups::far(),
            false => PeerWakeups::new(beside[own - 1].as_fd())?,
        };
        space.map(opened.queues, beside.first(), Access::Write)?;
        let link = ChannelLink {
            id: opened.channel,
            peer: opened.peer,
            queues: opened.queues,
            wakeups,
            peer_wakeup: opened.wakeup as usize % crate::WAKEUPS,
            rings: opened.rings,
            own_wakeup: AtomicU32::new(0),
            gone: AtomicU32::new(0),
            granted: (0..MOST_GRANTED).map(|_| GrantedSegment::default()).collect(),
            count: AtomicU32::new(0),
            last: AtomicU32::new(0),
            unmapped: Mutex::new(false),
            unmaps_withdrawn: AtomicBool::new(false),
        };
        Ok((link, ChannelGreeting { bytes: opened.greeting, passed }))
    }

    /// Returns the channel's identity.
    pub(super) fn id(&self) -> ChannelId {
        self.id
    }

    /// Returns the process at the other side.
    pub(super) fn peer(&self) -> &PeerProcess {
        &self.peer
    }

    /// Returns the index of this process's wakeup for the channel.
    pub(super) fn own_wakeup(&self) -> usize {
        self.own_wakeup.load(Ordering::Relaxed) as usize
    }

    /// Sets the index of this process's wakeup for the channel.
    pub(super) fn set_own_wakeup(&self, wakeup: usize) {
        self.own_wakeup.store(wakeup as u32, Ordering::Relaxed);
    }

    /// Returns why the peer is gone, or `None`.
    pub(super) fn gone(&self) -> Option<Cause> {
        cause_of(self.gone.load(Ordering::Acquire))
    }

    /// Records why the peer is gone. The first cause is kept because a peer that gives a channel up closes it later.
    pub(super) fn note_gone(&self, cause: Cause) {
        let _ = self.gone.compare_exchange(0, word_of(cause), Ordering::Release, Ordering::Relaxed);
    }

    /// Returns whether there is room for another granted segment. The manager never grants more than fit.
    fn has_room(&self) -> bool {
        (self.count.load(Ordering::Relaxed) as usize) < MOST_GRANTED || self.free_entry().is_some()
    }

    /// Returns the index of an entry whose segment has been unmapped.
    fn free_entry(&self) -> Option<usize> {
        self.used().iter().position(|granted| granted.mapped.load(Ordering::Relaxed) == 0)
    }

    /// Returns whether a segment is mapped already, because the manager repeats a grant.
    fn knows(&self, segment: Extent) -> bool {
        self.used().iter().any(|granted| granted.mapped.load(Ordering::Relaxed) == segment.end())
    }

    /// Maps a segment that the peer granted, unless the channel has ended.
    ///
    /// # Errors
    /// The error of the kernel, if the segment cannot be mapped.
    pub(super) fn map(
        &self,
        space: &MappedSpace,
        segment: Extent,
        file: Option<&OwnedFd>,
        access: Access,
    ) -> rustix::io::Result<()> {
        let unmapped = self.unmapped.lock().unwrap_or_else(PoisonError::into_inner);
        if *unmapped || self.knows(segment) || !self.has_room() {
            return Ok(());
        }
        space.map(segment, file, access)?;
        self.granted(segment, access);
        Ok(())
    }

    /// Records a granted segment that was just mapped.
    fn granted(&self, segment: Extent, access: Access) {
        let count = self.count.load(Ordering::Relaxed);
        let free = self.free_entry();
        let granted = &self.granted[free.unwrap_or(count as usize)];
        granted.start.store(segment.offset, Ordering::Relaxed);
        granted.mapped.store(segment.end(), Ordering::Relaxed);
        // Pairs with the load in `Granted::has`.
        granted.end.store(segment.end() | (access == Access::Write) as u64, Ordering::Release);
        if free.is_none() {
            self.count.store(count + 1, Ordering::Release);
        }
    }

    /// Marks a segment as withdrawn, so that its offsets are no longer valid. The segment normally stays mapped until
    /// the channel is dropped, because a thread may still be reading it. If the user of the channel pins what it uses,
    /// an unpinned segment is unmapped here. Returns whether the segment was unmapped, so that the caller must report
    /// this to the manager.
    pub(super) fn withdrawn(&self, space: &MappedSpace, offset: u64) -> bool {
        let unmapped = self.unmapped.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stays = *unmapped || !self.unmaps_withdrawn.load(Ordering::Acquire);
        for granted in self.used() {
            let is_it =
                granted.start.load(Ordering::Relaxed) == offset && granted.mapped.load(Ordering::Relaxed) > 0;
            if is_it {
                granted.end.store(0, Ordering::Release);
                stays = stays || !self.unmap_unpinned(space, granted);
            }
        }
        !stays
    }

    /// Unmaps a withdrawn segment if no part of it is pinned. Returns whether the segment was unmapped.
    fn unmap_unpinned(&self, space: &MappedSpace, granted: &GrantedSegment) -> bool {
        let is_pinned = granted.pins.load(Ordering::Relaxed) > 0;
        if !self.unmaps_withdrawn.load(Ordering::Acquire) || is_pinned {
            return false;
        }
        // SAFETY: by the contract of `unmap_withdrawn`, a thread that uses pointers into the segment has pinned it, and
        // it has no pins.
        unsafe { space.unmap(granted.extent()) };
        granted.mapped.store(0, Ordering::Relaxed);
        true
    }

    /// Pins the segment that allows this access to the whole range, and returns the index of its entry.
    pub(super) fn pin(&self, offset: u64, bytes: u64, access: Access) -> Option<usize> {
        let _unmapped = self.unmapped.lock().unwrap_or_else(PoisonError::into_inner);
        let found = self.used().iter().position(|granted| granted.has(offset, bytes, access))?;
        self.granted[found].pins.fetch_add(1, Ordering::Relaxed);
        Some(found)
    }

    /// Removes one pin of an entry. If the segment was withdrawn and is unmapped now, returns its offset.
    pub(super) fn unpin(&self, space: &MappedSpace, entry: usize) -> Option<u64> {
        let unmapped = self.unmapped.lock().unwrap_or_else(PoisonError::into_inner);
        let granted = &self.granted[entry];
        granted.pins.fetch_sub(1, Ordering::Relaxed);
        let was_withdrawn = granted.end.load(Ordering::Relaxed) == 0;
        let gone = was_withdrawn && !*unmapped && self.unmap_unpinned(space, granted);
        gone.then(|| granted.start.load(Ordering::Relaxed))
    }

    /// Returns whether one granted segment allows this access to the whole range.
    #[inline(always)]
    pub(super) fn has(&self, offset: u64, bytes: u64, access: Access) -> bool {
        let last = &self.granted[self.last.load(Ordering::Relaxed) as usize % MOST_GRANTED];
        last.has(offset, bytes, access) || self.find(offset, bytes, access)
    }

    fn find(&self, offset: u64, bytes: u64, access: Access) -> bool {
        let found = self.used().iter().position(|granted| granted.has(offset, bytes, access));
        found.inspect(|&at| self.last.store(at as u32, Ordering::Relaxed)).is_some()
    }

    fn used(&self) -> &[GrantedSegment] {
        &self.granted[..self.count.load(Ordering::Acquire) as usize]
    }

    /// Unmaps everything that was received by the channel. No pointer into it is in use any more.
    pub(super) fn unmap(&self, space: &MappedSpace) {
        let mut unmapped = self.unmapped.lock().unwrap_or_else(PoisonError::into_inner);
        *unmapped = true;
        let granted = self.used().iter().filter(|granted| granted.mapped.load(Ordering::Relaxed) > 0);
        let granted = granted.map(GrantedSegment::extent);
        for extent in std::iter::once(self.queues).chain(granted) {
            // SAFETY: pointers into the memory were valid until the channel was dropped, and it has been dropped.
            unsafe { space.unmap(extent) };
        }
    }
}

impl GrantedSegment {
    /// Returns the mapped extent.
    fn extent(&self) -> Extent {
        let offset = self.start.load(Ordering::Relaxed);
        Extent { offset, bytes: self.mapped.load(Ordering::Relaxed) - offset }
    }

    #[inline(always)]
    fn has(&self, offset: u64, bytes: u64, access: Access) -> bool {
        let end = self.end.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Relaxed);
        let may = access == Access::Read || end & 1 == 1;
        may && offset >= start && offset.checked_add(bytes).is_some_and(|last| last <= end & !1)
    }
}

/// Decodes the stored reason why the peer is gone; zero means that the peer is alive.
fn cause_of(word: u32) -> Option<Cause> {
    match word {
        0 => None,
        1 => Some(Cause::Closed),
        3 => Some(Cause::CannotMap),
        4 => Some(Cause::HostSilent),
        _ => Some(Cause::Died),
    }
}

fn word_of(cause: Cause) -> u32 {
    match cause {
        Cause::Closed => 1,
        Cause::Died => 2,
        Cause::CannotMap => 3,
        Cause::HostSilent => 4,
    }
}
