//! Operations on sockets: messages of many pieces that carry a descriptor, and waits for events.

use super::syscalls::{Transfer, pieces};
use crate::story::fail;
use crate::sys::{self, DescriptorPair};
use crate::worker::Worker;
use unrack_basis::PAGE;

/// Maximum number of pages of a message that the kernel transports as one piece. The limit is needed because a read of a message with a
/// descriptor never returns more than one piece.
const IN_ONE_PIECE: usize = 8;

/// Sends a range of pages as one message that also carries a descriptor.
pub(super) fn message(w: &mut Worker) {
    let t = Transfer::prepare(w, IN_ONE_PIECE);
    let kind = [libc::SOCK_STREAM, libc::SOCK_SEQPACKET, libc::SOCK_DGRAM][w.rng.below(3)];
    let pair = DescriptorPair::sockets(kind);
    let (source, target, len) = (t.source(w), t.target(w), t.len());
    let mut out = pieces(w, source, len);
    let mut into = pieces(w, target, len);
    send(&pair, &mut out, len);
    receive(&pair, &mut into, len);
    t.arrived(w);
}

/// Control buffer for one descriptor, aligned as the kernel requires.
type DescriptorBuffer = [u64; 8];

/// Returns the header of a message that consists of these pieces, with room for a descriptor.
fn header(pieces: &mut [libc::iovec], beside: &mut DescriptorBuffer) -> libc::msghdr {
    // SAFETY: `msghdr` is plain data.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    (header.msg_iov, header.msg_iovlen) = (pieces.as_mut_ptr(), pieces.len());
    header.msg_control = beside.as_mut_ptr().cast();
    // SAFETY: this only computes a size.
    header.msg_controllen = unsafe { libc::CMSG_SPACE(4) } as usize;
    header
}

/// Sends the pieces as one message, together with a descriptor of the pair.
fn send(pair: &DescriptorPair, pieces: &mut [libc::iovec], len: usize) {
    let mut beside = Box::new([0; 8]);
    let header = Box::new(header(pieces, &mut beside));
    // SAFETY: the control buffer has room for one header and one descriptor.
    unsafe {
        let c = libc::CMSG_FIRSTHDR(&*header);
        (*c).cmsg_level = libc::SOL_SOCKET;
        (*c).cmsg_type = libc::SCM_RIGHTS;
        (*c).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(c).cast::<i32>().write_unaligned(pair.0);
    }
    // SAFETY: all objects to which the header points are alive.
    let sent = sys::retry("sendmsg", || unsafe { libc::sendmsg(pair.1, &*header, 0) });
    if sent != len {
        fail(format_args!("sendmsg took {sent} of {len} bytes"));
    }
}

/// Receives one message of `len` bytes, together with its descriptor.
fn receive(pair: &DescriptorPair, pieces: &mut [libc::iovec], len: usize) {
    let mut beside = Box::new([0; 8]);
    let mut header = Box::new(header(pieces, &mut beside));
    let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_WAITALL;
    // SAFETY: all objects to which the header points are alive.
    let got = sys::retry("recvmsg", || unsafe { libc::recvmsg(pair.0, &mut *header, flags) });
    // SAFETY: the kernel filled the control buffer up to the length that is in the header.
    let fd = unsafe {
        let c = libc::CMSG_FIRSTHDR(&*header);
        if c.is_null() { -1 } else { libc::CMSG_DATA(c).cast::<i32>().read_unaligned() }
    };
    if got != len || fd < 0 {
        fail(format_args!("recvmsg gave {got} of {len} bytes and descriptor {fd}"));
    }
    // SAFETY: the descriptor was received with the message and belongs to this process.
    unsafe { libc::close(fd) };
}

/// Waits for events, with the lists of descriptors and events in a page of a region.
pub(super) fn poll(w: &mut Worker) {
    let i = w.any_region(1);
    let range = w.any_range(i, 1);
    let version = w.new_version();
    let region = &mut w.regions[i];
    region.protect(sys::READ_WRITE);
    let base = region.address(range.start);
    let pair = DescriptorPair::pipe();
    // SAFETY: writes a constant byte.
    sys::retry("write", || unsafe { libc::write(pair.1, b"!".as_ptr().cast(), 1) });
    poll_list(base, &pair);
    wait_list(base + PAGE / 2, &pair);
    region.write(range.clone(), w.seed, version);
    region.verify(range);
}

/// Polls a pipe, with the list of descriptors at address `at`.
fn poll_list(at: usize, pair: &DescriptorPair) {
    let list = at as *mut libc::pollfd;
    // SAFETY: the page has room for two entries; the kernel writes its results into them.
    let ready = unsafe {
        list.write(libc::pollfd { fd: pair.0, events: libc::POLLIN, revents: 0 });
        list.add(1).write(libc::pollfd { fd: pair.1, events: libc::POLLIN, revents: 0 });
        sys::retry("poll", || libc::poll(list, 2, 1000) as isize)
    };
    // SAFETY: both entries were written above, and the call has returned.
    let revents = unsafe { ((*list).revents, (*list.add(1)).revents) };
    if ready != 1 || revents != (libc::POLLIN, 0) {
        fail(format_args!("poll says {ready} ready, events {revents:?}"));
    }
}

/// Waits for a pipe by epoll, with the list of events at address `at`.
fn wait_list(at: usize, pair: &DescriptorPair) {
    // SAFETY: creates a new descriptor, which is closed below.
    let epoll = sys::must(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }, "epoll_create1");
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0xfeed };
    let list = at as *mut libc::epoll_event;
    // SAFETY: the half page has room for four entries.
    let ready = unsafe {
        sys::must(libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, pair.0, &mut event), "epoll_ctl");
        sys::retry("epoll_wait", || libc::epoll_wait(epoll, list, 4, 1000) as isize)
    };
    // SAFETY: the half page has room for an entry, and any bytes are valid for it. It is copied because the type is packed.
    let first = unsafe { list.read_unaligned() }.u64;
    // SAFETY: the descriptor was created above.
    unsafe { libc::close(epoll) };
    if ready != 1 || first != 0xfeed {
        fail(format_args!("epoll_wait says {ready} ready, first {first:#x}"));
    }
}
