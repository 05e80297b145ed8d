//! Session through shared memory: the node hands out memory, and only keeps account of it.
//!
//! Memory comes in *extents*. Each extent is a memory file of a fixed size, whose descriptor the node sends on request. Only one client
//! reads and writes an extent. Therefore a store is a copy that completes at once, and no ring of requests is needed. The socket remains
//! for two purposes: the client requests more extents over it, and it reveals the end of the node, because the kernel closes the socket
//! whatever the reason is.

use super::connect::{self, Link};
use super::error::{Error, ErrorKind};
use super::held::ById;
use super::meter::Meter;
use super::pulse::Pulse;
use super::request::{Owed, PageCompletion, Rejected};
use super::session::hash_of;
use super::settings::{NodeLimits, NodeSettings, Tuning};
use crate::sys::now_ns;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::SealFlags;
use rustix::io::Errno;
use rustix::io::IoSliceMut;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};
use unrack_wire::{EndReason, HEADER, Header, PAGE, PageTransport, Verb};

#[derive(Debug, Clone, Copy)]
struct KnownExtent {
    /// Place of the page: 1 + its number among all pages of all extents; 0: none.
    place: u32,
    checksum: u64,
}

/// State of the only request that this process may have sent to the node without an answer: a request for one more extent, or a ping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestState {
    No,
    Wanted,
    Yes,
    Ping,
}

/// Session with a node on this machine, with the extents that the node handed out.
pub struct MappedNode {
    pub(super) link: Link,
    tuning: Tuning,
    pub(super) limits: NodeLimits,
    meter: Meter,
    pulse: Pulse,
    known: ById<KnownExtent>,
    extents: Vec<usize>,
    extent_pages: usize,
    /// Places that were used and are free again.
    free: Vec<u32>,
    /// Number of places that were never used.
    unused: usize,
    asked: RequestState,
    /// True if the node refused the last request for an extent.
    refused: bool,
    number: u32,
    reply: [u8; HEADER],
    reply_len: usize,
    descriptor: Option<OwnedFd>,
    /// Id of a page that did not match its checksum when it was loaded.
    corrupt: Option<u32>,
    /// Stores that wait for room, in order: ids of pages that have no place yet, and the addresses of their slots.
    waiting: VecDeque<(u32, usize)>,
    done: Vec<PageCompletion>,
    heard: u64,
}

impl MappedNode {
    pub(super) fn open(settings: &NodeSettings) -> Result<MappedNode, Error> {
        let (link, welcome) = connect::greet(settings, PageTransport::Shared)?;
        Ok(MappedNode {
            link,
            tuning: settings.tuning.within(&welcome),
            limits: NodeLimits::new(&welcome),
            meter: Meter::new(settings.counts),
            pulse: Pulse::new(welcome.silence_ms, settings.patience_ns, now_ns()),
            known: ById::new(KnownExtent { place: 0, checksum: 0 }),
            extents: Vec::new(),
            extent_pages: welcome.extent_pages as usize,
            free: Vec::new(),
            unused: 0,
            asked: RequestState::Wanted,
            refused: false,
            number: 0,
            reply: [0; HEADER],
            reply_len: 0,
            descriptor: None,
            corrupt: None,
            waiting: VecDeque::new(),
            done: Vec::new(),
            heard: 0,
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.link.socket.as_fd()
    }

    pub(super) fn heard(&self) -> u64 {
        self.heard
    }

    /// Returns [`Owed::Room`] if stores wait for room, because only such stores wait for the node.
    pub(super) fn owed(&self) -> Option<Owed> {
        (!self.waiting.is_empty()).then_some(Owed::Room)
    }

    pub(super) fn is_idle(&self) -> bool {
        self.done.is_empty()
            && self.waiting.is_empty()
            && matches!(self.asked, RequestState::No | RequestState::Ping)
    }

    /// Stores a page, or queues the store until there is room.
    ///
    /// # Safety
    /// The page at `at` stays readable and unchanged until the store completes.
    pub(super) unsafe fn store(&mut self, id: u32, at: usize) -> Result<(), Rejected> {
        if id >= self.tuning.most_ids {
            return Err(Rejected::BadId);
        }
        if self.is_full() {
            return Err(Rejected::Full);
        }
        match self.known.get(id).place {
            0 => self.waiting.push_back((id, at)),
            // SAFETY: the caller guarantees that the page stays readable and unchanged.
            place => unsafe { self.put(id, place, at) },
        }
        self.place_waiting();
        Ok(())
    }

    /// Loads a page into `at`.
    ///
    /// # Safety
    /// There is a writable page at `at` that is not used otherwise meanwhile.
    pub(super) unsafe fn load(&mut self, id: u32, at: usize) -> Result<(), Rejected> {
        let known = self.known.get(id);
        let waiting = self.waiting.iter().rfind(|(waiting, _)| *waiting == id);
        let from = match (known.place, waiting) {
            (0, None) => return Err(Rejected::NotHeld),
            // Stores that wait for room do not block loads of pages that are in the extents.
            _ if self.done.len() >= self.tuning.queue => return Err(Rejected::Full),
            (0, Some((_, slot))) => *slot,
            (place, _) => self.address(place),
        };
        // SAFETY: the caller guarantees this for `at`; `from` is a page of this session's mapping, or one that a waiting store lends us.
        unsafe { core::ptr::copy_nonoverlapping(from as *const u8, at as *mut u8, PAGE) };
        let check = self.tuning.checksums && known.place != 0;
        // SAFETY: the caller guarantees that the page is readable and unused otherwise.
        if check && unsafe { hash_of(at) } != known.checksum {
            self.corrupt = Some(id);
        } else {
            self.done.push(PageCompletion::Loaded { id });
        }
        Ok(())
    }

    pub(super) fn forget(&mut self, ids: &[u32]) -> usize {
        for id in ids {
            let place = self.known.get(*id).place;
            if place != 0 {
                self.known.get_mut(*id).place = 0;
                self.free.push(place);
            }
            while self.withdraw(*id) {
                self.done.push(PageCompletion::Stored { id: *id });
            }
        }
        ids.len()
    }

    pub(super) fn is_unsent(&self, id: u32) -> bool {
        self.waiting.iter().any(|(waiting, _)| *waiting == id)
    }

    pub(super) fn withdraw(&mut self, id: u32) -> bool {
        let last = self.waiting.iter().rposition(|(waiting, _)| *waiting == id);
        last.is_some_and(|last| self.waiting.remove(last).is_some())
    }

    fn is_full(&self) -> bool {
        self.done.len() + self.waiting.len() >= self.tuning.queue
    }

    /// Stores waiting pages as far as there is room, and refuses them if the node refused to give more room.
    fn place_waiting(&mut self) {
        while let Some((id, at)) = self.waiting.pop_front() {
            let known = self.known.get(id).place;
            let place = if known == 0 { self.take_place() } else { Some(known) };
            match place {
                // SAFETY: the caller of `store` guarantees that the page stays readable and unchanged.
                Some(place) => unsafe { self.put(id, place, at) },
                None if self.refused => self.done.push(PageCompletion::Refused { id }),
                None => return self.waiting.push_front((id, at)),
            }
        }
    }

    /// Copies a page to its place in an extent, and completes the store.
    ///
    /// # Safety
    /// There is a readable page at `at` that does not change meanwhile.
    unsafe fn put(&mut self, id: u32, place: u32, at: usize) {
        // SAFETY: the caller guarantees this for `at`; the place is a page of a mapping that only this session uses.
        unsafe { core::ptr::copy_nonoverlapping(at as *const u8, self.address(place) as *mut u8, PAGE) };
        // SAFETY: the caller guarantees that the page is readable.
        let checksum = if self.tuning.checksums { unsafe { hash_of(at) } } else { 0 };
        *self.known.get_mut(id) = KnownExtent { place, checksum };
        self.done.push(PageCompletion::Stored { id });
    }

    /// Receives an answer, requests another extent if needed, and appends completed requests to `done`.
    pub(super) fn progress(&mut self, done: &mut Vec<PageCompletion>) -> Result<(), Error> {
        self.receive()?;
        self.place_waiting();
        if let Some(id) = self.corrupt {
            return Err(self.link.error(ErrorKind::Corrupt { id }));
        }
        let now_ns = now_ns();
        if self.asked == RequestState::Wanted {
            self.ask(Verb::Grant, now_ns)?;
        } else if self.asked == RequestState::No && self.pulse.is_due(now_ns) {
            self.ask(Verb::Ping, now_ns)?;
        }
        self.meter.read(&self.done, self.owed(), now_ns);
        done.append(&mut self.done);
        Ok(())
    }

    fn address(&self, place: u32) -> usize {
        let page = place as usize - 1;
        self.extents[page / self.extent_pages] + page % self.extent_pages * PAGE
    }

    /// Takes a free place. Requests another extent before room runs out: when a quarter of an extent is left, and again when no place is
    /// left. The second request is made even if the node refused the last one, because another session may have ended since.
    fn take_place(&mut self) -> Option<u32> {
        let left = self.free.len() + self.unused;
        let short = left == 0 || left <= self.extent_pages / 4 && !self.refused;
        if short && self.asked == RequestState::No {
            self.asked = RequestState::Wanted;
        }
        if let Some(place) = self.free.pop() {
            return Some(place);
        }
        let next = self.extents.len() * self.extent_pages - self.unused;
        self.unused = self.unused.checked_sub(1)?;
        Some(next as u32 + 1)
    }

    /// Returns the header of a request. A request for memory contains the number of the next extent; a ping names no page.
    fn request(&self, verb: Verb) -> Header {
        match verb {
            Verb::Grant => Header::request(verb, self.extents.len() as u32, 1, self.number),
            _ => Header::request(verb, 0, 0, self.number),
        }
    }

    fn ask(&mut self, verb: Verb, now_ns: u64) -> Result<(), Error> {
        match rustix::net::send(&self.link.socket, &self.request(verb).encode(), SendFlags::NOSIGNAL) {
            Ok(HEADER) => {
                self.asked = if verb == Verb::Grant { RequestState::Yes } else { RequestState::Ping };
                self.pulse.said(now_ns);
            }
            Ok(_) => return Err(self.link.error(ErrorKind::Closed)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(self.link.broken(errno)),
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<(), Error> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [IoSliceMut::new(&mut self.reply[self.reply_len..])];
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let received = match rustix::net::recvmsg(&self.link.socket, parts, &mut beside, flags) {
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            other => other.map_err(|errno| self.link.broken(errno))?,
        };
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                descriptors.for_each(|descriptor| self.descriptor = Some(descriptor));
            }
        }
        if received.bytes == 0 {
            return Err(self.link.error(ErrorKind::Closed));
        }
        self.heard += 1;
        self.reply_len += received.bytes;
        if self.reply_len == HEADER { self.handle_reply() } else { Ok(()) }
    }

    fn handle_reply(&mut self) -> Result<(), Error> {
        self.reply_len = 0;
        let garbage = |what| self.link.error(ErrorKind::Garbage(what));
        let reply = Header::decode(&self.reply).map_err(|malformed| garbage(malformed.0))?;
        if reply.verb == Verb::Bye {
            let reason = EndReason::decode(reply.detail).ok_or(garbage("a farewell for no known reason"))?;
            return Err(self.link.error(ErrorKind::Ended(reason)));
        }
        let verb = match self.asked {
            RequestState::Yes => Verb::Grant,
            RequestState::Ping => Verb::Ping,
            RequestState::No | RequestState::Wanted => return Err(garbage("an answer to nothing")),
        };
        if reply != self.request(verb).answer(reply.detail) {
            return Err(garbage("an answer to nothing"));
        }
        self.asked = RequestState::No;
        self.number = self.number.wrapping_add(1);
        match (verb, reply.detail, self.descriptor.take()) {
            (Verb::Grant, 1, None) => self.refused = true,
            (Verb::Grant, 0, Some(extent)) => self.add(extent)?,
            (Verb::Ping, 0, None) => {}
            _ => return Err(garbage("a grant without memory")),
        }
        Ok(())
    }

    fn add(&mut self, extent: OwnedFd) -> Result<(), Error> {
        let bytes = self.extent_pages * PAGE;
        let at = map(&extent, bytes).map_err(|errno| self.link.error(ErrorKind::Map(errno)))?;
        self.extents.push(at);
        self.unused += self.extent_pages;
        self.refused = false;
        Ok(())
    }
}

impl Drop for MappedNode {
    fn drop(&mut self) {
        for extent in &self.extents {
            // SAFETY: our own mapping, which is not used any more.
            let _ = unsafe { rustix::mm::munmap(*extent as *mut c_void, self.extent_pages * PAGE) };
        }
    }
}

/// Maps an extent. The size of its file must be fixed, because touching a page beyond the end of the file would raise `SIGBUS`.
fn map(extent: &OwnedFd, bytes: usize) -> Result<usize, Errno> {
    let fixed = rustix::fs::fcntl_get_seals(extent)?.contains(SealFlags::SHRINK);
    if !fixed || (rustix::fs::fstat(extent)?.st_size as u64) < bytes as u64 {
        return Err(Errno::INVAL);
    }
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address that the kernel chooses.
    let at =
        unsafe { rustix::mm::mmap(core::ptr::null_mut(), bytes, protection, MapFlags::SHARED, extent, 0)? };
    // A forked child does not inherit the extent, because it has a separate session.
    // SAFETY: our own mapping; the advice changes no contents.
    unsafe { rustix::mm::madvise(at, bytes, Advice::LinuxDontFork)? };
    Ok(at as usize)
}
