//! Children of a process whose memory is borrowed: the kernel reports each fork, and the pager copies the pages that are out of the program
//! to the child. The child itself gets no pager.
//!
//! From the moment when a fork copies page tables until its message is read, the kernel refuses to move pages. Therefore the bookkeeping at
//! the time when the message is read shows exactly the pages that were out of the program when the child was made. In the same way, the
//! child's changes of its address space wait until the pager has read their messages.

use super::events::FaultEvents;
use crate::gate;
use crate::memory::Memory;
use crate::pagemap::is_filled;
use crate::reserved_region;
use crate::residency::Residency;
use crate::sys::{Event, PAGE, Uffd};
use crate::table::RecordId;
use alloc::vec;
use alloc::vec::Vec;
use core::ffi::c_int;
use rustix::fd::{FromRawFd, OwnedFd};
use rustix::io::Errno;

/// Maximum number of pages that are copied at once.
const MOST_COPIED: usize = 512;

/// A mapping that moved: its old address, its new address, and its length.
type Move = (usize, usize, usize);

/// A child of a fork that still lacks pages, from index `next` on.
struct Child {
    uffd: Uffd,
    next: usize,
    /// Maximum number of pages to copy at once.
    most: usize,
    /// True if the next page is not at its address in the parent's bookkeeping, but at the address to which its mapping moved.
    is_moved: bool,
    /// Changes of the child's memory since the fork, in this order.
    changes: Vec<SpaceChange>,
}

/// Change of a child's address space.
#[derive(Clone, Copy)]
enum SpaceChange {
    Moved(Move),
    /// Unmapped or emptied, from the first address up to the second.
    Dropped(usize, usize),
}

/// Pages out of the program, of which a child gets copies.
struct Away<'a> {
    memory: &'a Memory,
    pages: &'a Residency,
    /// The pages, lowest address first.
    ids: Vec<RecordId>,
    /// Mappings that moved before the fork, although their messages came after that of the fork.
    moved: Vec<Move>,
}

/// Copies all pages that are out of the program to the child of the fork at index `at` of the backlog. No later message of the backlog may
/// have been applied to the bookkeeping yet.
pub(super) fn provide_for_child(
    descriptor: c_int,
    at: usize,
    events: &mut FaultEvents,
    memory: &Memory,
    pages: &Residency,
) {
    gate::note_fork();
    events.read_until_still(memory);
    let moved = events.behind(at).filter_map(move_of).collect();
    let mut ids: Vec<RecordId> = pages.table.away().collect();
    ids.sort_unstable_by_key(|id| pages.table.get(*id).address);
    let away = Away { memory, pages, ids, moved };
    let mut children = vec![Child::new(descriptor)];
    while let Some(child) = children.pop() {
        away.provide(child, &mut children);
    }
}

impl Away<'_> {
    /// Copies pages to a child. Children that this child forks meanwhile are added to `children`.
    fn provide(&self, mut child: Child, children: &mut Vec<Child>) {
        while let Some(rest) = self.ids.get(child.next..).filter(|rest| !rest.is_empty()) {
            let address = self.pages.table.get(rest[0]).address;
            let moved = moved_to(&self.moved, address);
            let at = if child.is_moved { moved } else { Some(address) };
            let is_plain = child.changes.is_empty() && !child.is_moved;
            let pages = if is_plain { self.copyable(&rest[..rest.len().min(child.most)]) } else { 1 };
            let Some(place) = at.and_then(|at| child.place(at)).filter(|_| pages > 0) else {
                child.pass(1);
                continue;
            };
            let (done, result) = child.uffd.copy(place, reserved_region::slot(rest[0]), pages * PAGE);
            match result {
                _ if done > 0 => child.pass(done / PAGE),
                Ok(()) | Err(Errno::EXIST) => child.pass(1),
                // The child has ended, or runs another program.
                Err(Errno::SRCH) => return,
                // For an address that does not exist, the kernel reports that error even if the address space is changing. Therefore the
                // child's changes are checked first.
                Err(_) if child.uffd.is_changing() => child.follow(children),
                Err(Errno::AGAIN) => {}
                // Neighbouring pages may be in two mappings.
                Err(_) if pages > 1 => child.most = pages / 2,
                Err(_) if moved.is_some() && !child.is_moved => child.is_moved = true,
                Err(_) => child.pass(1),
            }
        }
    }

    /// Returns how many of the first pages are neighbours whose contents are in their slots.
    fn copyable(&self, pages: &[RecordId]) -> usize {
        let run = self.pages.run_length(pages);
        let is_here =
            |id: &&RecordId| is_filled(self.memory.pagemap(), reserved_region::slot(**id)) == Some(true);
        pages[..run].iter().take_while(is_here).count()
    }
}

fn move_of(event: &Event) -> Option<Move> {
    match *event {
        Event::Remap { from, to, len } => Some((from, to, len)),
        _ => None,
    }
}

fn moved_to(moves: &[Move], address: usize) -> Option<usize> {
    let found = moves.iter().rev().find(|(from, _, len)| (*from..from + len).contains(&address));
    found.map(|(from, to, _)| to + (address - from))
}

impl Child {
    fn new(descriptor: c_int) -> Child {
        // SAFETY: the kernel made the descriptor for the reader of the fork's message.
        let uffd = unsafe { OwnedFd::from_raw_fd(descriptor) }.into();
        Child { uffd, next: 0, most: MOST_COPIED, is_moved: false, changes: Vec::new() }
    }

    /// Continues after `pages` more pages.
    fn pass(&mut self, pages: usize) {
        self.next += pages;
        self.most = MOST_COPIED;
        self.is_moved = false;
    }

    /// Returns the child's current address of the page that was at `address`, or `None` if the child has dropped the page.
    fn place(&self, address: usize) -> Option<usize> {
        self.changes.iter().try_fold(address, |at, change| match *change {
            SpaceChange::Moved(one) => Some(moved_to(&[one], at).unwrap_or(at)),
            SpaceChange::Dropped(start, end) => Some(at).filter(|at| !(start..end).contains(at)),
        })
    }

    /// Reads the child's changes of its address space.
    fn follow(&mut self, children: &mut Vec<Child>) {
        let mut events = Vec::new();
        if self.uffd.read(&mut events).is_err() || events.is_empty() {
            rustix::thread::sched_yield();
        }
        for event in events {
            match event {
                // The page of this fault is being copied, or arrives before the copying ends.
                Event::Fault { .. } => {}
                Event::Remap { from, to, len } => self.changes.push(SpaceChange::Moved((from, to, len))),
                Event::Remove { start, end } | Event::Unmap { start, end } => {
                    self.changes.push(SpaceChange::Dropped(start, end));
                }
                Event::Fork { uffd } => children.push(Child {
                    next: self.next,
                    is_moved: self.is_moved,
                    changes: self.changes.clone(),
                    ..Child::new(uffd)
                }),
            }
        }
    }
}
