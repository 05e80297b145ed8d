//! Session over shared memory: the node only does the accounting, and the client copies its pages itself.
//!
//! An *extent* is a file in memory with a sealed size: a client can neither grow it beyond the charged size nor shrink it while another
//! process uses it. The node allocates the pages of an extent, so that they count as the node's memory and exist when the client touches
//! them. When the session ends, the node removes the pages from the files. Therefore a client that is stopped, or that keeps its mapping,
//! does not keep any of the node's memory. A process that touches the mapping again gets zero pages, which are charged to that process.

use crate::part::SessionPages;
use crate::statistics::{NodeCounters, count};
use crate::stream::{SessionEnd, say_bye};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, SealFlags};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use unrack_wire::{EndReason, HEADER, Header, Malformed, PAGE, Verb};

/// Serves a session over shared memory until it ends, and then empties its extents.
pub(crate) fn serve(
    stream: &mut UnixStream,
    mut part: SessionPages,
    extent_pages: u32,
    counters: &NodeCounters,
) -> SessionEnd {
    let mut extents = Vec::new();
    let end = answer_all(stream, &mut part, extent_pages, (counters, &mut extents));
    extents.iter().for_each(|extent| empty(extent, extent_pages));
    end
}

/// Answers requests until the session ends.
fn answer_all(
    stream: &mut UnixStream,
    part: &mut SessionPages,
    extent_pages: u32,
    (counters, extents): (&NodeCounters, &mut Vec<OwnedFd>),
) -> SessionEnd {
    loop {
        let mut bytes = [0; HEADER];
        if let Err(error) = stream.read_exact(&mut bytes) {
            return SessionEnd::from_error(&error);
        }
        let request = match check(&bytes, extents.len()) {
            Ok(request) => request,
            Err(malformed) => {
                say_bye(stream, EndReason::Malformed);
                return SessionEnd::Faulty(crate::session::SessionFault::Malformed(malformed));
            }
        };
        let (extent, detail) = match request.verb {
            Verb::Ping => (None, 0),
            _ => {
                let extent = grant(part, extent_pages);
                let full = extent.is_none() as u32;
                (extent, full)
            }
        };
        count(&counters.extents, extent.is_some() as u64);
        if answer(stream, request.answer(detail), extent.as_ref()).is_err() {
            return SessionEnd::Gone;
        }
        extents.extend(extent);
    }
}

/// Decodes a request, and checks that it is a ping or asks for the next extent.
fn check(bytes: &[u8; HEADER], extents: usize) -> Result<Header, Malformed> {
    let request = Header::decode(bytes)?;
    request.check_request()?;
    let grant = Header::request(Verb::Grant, extents as u32, 1, request.number);
    let ping = Header::request(Verb::Ping, 0, 0, request.number);
    (request == grant || request == ping).then_some(request).ok_or(Malformed("a request out of place"))
}

/// Grants an extent. Returns `None` if the session's part or the machine has no room.
fn grant(part: &mut SessionPages, pages: u32) -> Option<OwnedFd> {
    if !part.take(pages as u64) {
        return None;
    }
    let extent = make_extent(pages as u64 * PAGE as u64).ok();
    if extent.is_none() {
        part.give(pages as u64);
    }
    extent
}

/// Makes an extent of `bytes` bytes with allocated pages and a sealed size.
fn make_extent(bytes: u64) -> rustix::io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let extent = rustix::fs::memfd_create("unrack-extent", flags)?;
    // With the default mode, every user could open the file through its name in /proc.
    rustix::fs::fchmod(&extent, Mode::RUSR | Mode::WUSR)?;
    rustix::fs::fallocate(&extent, FallocateFlags::empty(), 0, bytes)?;
    rustix::fs::fcntl_add_seals(&extent, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    Ok(extent)
}

/// Removes all pages from an extent, even if a process has mapped it. The seal against shrinking does not forbid this.
fn empty(extent: &OwnedFd, pages: u32) {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    // If this fails, the memory is freed together with the last mapping.
    let _ = rustix::fs::fallocate(extent, flags, 0, u64::from(pages) * PAGE as u64);
}

/// Sends an answer, with the descriptor of the extent if there is one.
fn answer(stream: &UnixStream, reply: Header, extent: Option<&OwnedFd>) -> rustix::io::Result<()> {
    let bytes = reply.encode();
    let descriptors: Vec<_> = extent.iter().map(|extent| extent.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        beside.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    // A stream socket sends 16 bytes either completely or not at all.
    rustix::net::sendmsg(stream, &[IoSlice::new(&bytes)], &mut beside, SendFlags::NOSIGNAL).map(drop)
}
