//! Server of `ivshmem-doorbell` devices, with which guests interrupt each other.
//!
//! The protocol is QEMU's (docs/specs/ivshmem-spec, "Client-Server protocol"): the server sends messages of 8 bytes, little-endian, each
//! with at most one descriptor, and receives nothing.
//!
//! | message | descriptor | meaning |
//! |---|---|---|
//! | 0 | none | version of the protocol |
//! | number | none | number of this guest |
//! | -1 | memory | memory that all guests share: one page, which is not used |
//! | number | eventfd | another guest, or in the last message this guest: a write to the eventfd interrupts the guest |
//!
//! Departure: every guest is informed once, at its start, of all guests of the rack, whether they are running or not, and each guest keeps
//! its eventfd when it boots again. The protocol could also announce that a guest has ended and that it is back. However, QEMU (read in
//! 8.1, seen in 7.2) then frees the guest's eventfds and never allocates them again (`close_peer_eventfds`). If the same number is
//! announced a second time, QEMU overwrites its heap and crashes. Because a running guest receives no messages, a stopped guest cannot
//! block the server. An interrupt for a guest that is down is lost.

use crate::memory;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, retry_on_intr};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::File;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use unrack_live::Error;

const VERSION: i64 = 0;
const MEMORY: i64 = -1;
const PAGE: usize = 4096;

/// Server of a rack's doorbells.
#[derive(Debug)]
pub(crate) struct Doorbells {
    memory: File,
    /// Eventfds of the guests, by number.
    interrupts: Vec<OwnedFd>,
}

impl Doorbells {
    /// Creates the server for this number of guests.
    ///
    /// # Errors
    /// [`Error::Broken`] if the machine lacks the memory or the descriptors.
    pub(crate) fn new(guests: usize) -> Result<Doorbells, Error> {
        let memory = memory::file("unrack-doorbell", &[0; PAGE])?;
        // The eventfds are nonblocking, because a QEMU that writes to an eventfd must not wait even if the interrupted guest is stopped.
        let made = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let interrupts = (0..guests).map(|_| made()).collect::<Result<_, _>>();
        let interrupts =
            interrupts.map_err(|why| Error::Broken(format!("the doorbells cannot be made: {why}")))?;
        Ok(Doorbells { memory, interrupts })
    }

    /// Connects a guest that is about to start, and discards earlier interrupts for it. Returns this end of the socket, which must stay
    /// open until the guest ends, and QEMU's end.
    ///
    /// # Errors
    /// Fails if no descriptors are left, or if they cannot be sent.
    pub(crate) fn connect(&self, number: usize) -> std::io::Result<(UnixStream, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        match retry_on_intr(|| read(&self.interrupts[number], &mut [0; 8])) {
            Ok(_) | Err(Errno::AGAIN) => {}
            Err(why) => return Err(why.into()),
        }
        // Send all messages before QEMU starts, because QEMU waits forever for a missing message.
        send(&ours, VERSION, None)?;
        send(&ours, number as i64, None)?;
        send(&ours, MEMORY, Some(self.memory.as_fd()))?;
        let others = (0..self.interrupts.len()).filter(|other| *other != number);
        for guest in others.chain([number]) {
            send(&ours, guest as i64, Some(self.interrupts[guest].as_fd()))?;
        }
        Ok((ours, theirs))
    }
}

/// Sends one message without waiting. A stream socket accepts 8 bytes completely or not at all.
fn send(socket: &UnixStream, message: i64, descriptor: Option<BorrowedFd>) -> rustix::io::Result<()> {
    let bytes = message.to_le_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if let Some(descriptor) = &descriptor {
        beside.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(descriptor)));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    retry_on_intr(|| sendmsg(socket, &[IoSlice::new(&bytes)], &mut beside, flags)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
    use std::io::IoSliceMut;

    /// Receives a message and its descriptor, as QEMU does; `None` if there is none.
    fn receive(socket: &UnixStream) -> Option<(i64, Option<OwnedFd>)> {
        let mut bytes = [0; 8];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut beside, flags) {
            Ok(received) => assert_eq!(received.bytes, 8),
            Err(Errno::AGAIN) => return None,
            Err(why) => panic!("{why}"),
        }
        let mut descriptors = beside.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect::<Vec<_>>(),
            _ => Vec::new(),
        });
        let descriptor = descriptors.next();
        assert!(descriptors.next().is_none(), "a message has one descriptor");
        Some((i64::from_le_bytes(bytes), descriptor))
    }

    /// Receives the messages for a guest. Returns the eventfds of these guests, the last of which belongs to the receiver.
    fn greeted(socket: &UnixStream, numbers: &[i64]) -> Vec<OwnedFd> {
        let message = || receive(socket).unwrap();
        assert!(matches!(message(), (0, None)));
        let own = *numbers.last().unwrap();
        assert!(matches!(message(), (number, None) if number == own));
        let (-1, Some(memory)) = message() else { panic!("no memory") };
        assert_eq!(File::from(memory).metadata().unwrap().len(), PAGE as u64);
        let eventfd = |number: &i64| match message() {
            (guest, Some(eventfd)) if guest == *number => eventfd,
            other => panic!("{other:?}, not an eventfd of guest {number}"),
        };
        let eventfds = numbers.iter().map(eventfd).collect();
        assert!(receive(socket).is_none());
        eventfds
    }

    fn interrupt(other: &OwnedFd) {
        rustix::io::write(other, &1u64.to_ne_bytes()).unwrap();
    }

    /// Returns how often a guest was interrupted since the last call.
    fn interrupts(own: &OwnedFd) -> u64 {
        let mut count = [0; 8];
        match read(own, &mut count) {
            Ok(_) => u64::from_ne_bytes(count),
            Err(Errno::AGAIN) => 0,
            Err(why) => panic!("{why}"),
        }
    }

    #[test]
    fn guests_are_told_of_each_other_and_interrupt_the_right_one() {
        let server = Doorbells::new(3).unwrap();
        let sockets = [0, 1, 2].map(|number| server.connect(number).unwrap());
        let [b_of_a, c_of_a, own_a] = greeted(&sockets[0].1, &[1, 2, 0]).try_into().unwrap();
        let [a_of_b, c_of_b, own_b] = greeted(&sockets[1].1, &[0, 2, 1]).try_into().unwrap();
        let [a_of_c, b_of_c, own_c] = greeted(&sockets[2].1, &[0, 1, 2]).try_into().unwrap();
        let sent = [
            ([&a_of_b, &a_of_c], [2, 0, 0]),
            ([&b_of_a, &b_of_c], [0, 2, 0]),
            ([&c_of_a, &c_of_b], [0, 0, 2]),
        ];
        for (eventfds, expected) in sent {
            eventfds.into_iter().for_each(interrupt);
            assert_eq!([&own_a, &own_b, &own_c].map(interrupts), expected);
        }
    }

    #[test]
    fn a_guest_that_boots_again_is_reached_as_before() {
        let server = Doorbells::new(2).unwrap();
        let (_a, at_a) = server.connect(0).unwrap();
        let b_of_a = greeted(&at_a, &[1, 0]).remove(0);
        // The other guest may be stopped, and reads nothing.
        for _ in 0..1000 {
            let (_b, at_b) = server.connect(1).unwrap();
            let own = greeted(&at_b, &[0, 1]).remove(1);
            assert_eq!(interrupts(&own), 0, "of the boot before");
            interrupt(&b_of_a);
            assert_eq!(interrupts(&own), 1);
            interrupt(&b_of_a);
        }
        assert!(receive(&at_a).is_none());
    }

    #[test]
    fn as_many_guests_as_a_rack_has_fit_into_a_socket() {
        let server = Doorbells::new(16).unwrap();
        let (_ours, theirs) = server.connect(15).unwrap();
        greeted(&theirs, &(0..16).collect::<Vec<_>>());
    }
}
