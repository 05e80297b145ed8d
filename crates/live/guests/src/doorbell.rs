//! Server of `ivshmem-doorbell` devices, with which guests interrupt each other.
//!
//! The protocol is QEMU's (docs/specs/ivshmem-spec, "Client-Server protocol"): the server sends 8 bytes at a time,
//! little-endian, with at most one descriptor, and receives nothing.
//!
//! | message | descriptor | meaning |
//! |---|---|---|
//! | 0 | none | version of the protocol |
//! | number | none | number of this guest |
//! | -1 | memory | memory that all guests share: a page, which is not used |
//! | number | eventfd | another guest, or at last this one: whoever writes to the eventfd interrupts it |
//!
//! Departure: every guest is told once, at its start, of all guests of the rack, whether they run or not, and each keeps
//! its eventfd when it boots again. The protocol can also tell that a guest has ended and is there again. But QEMU (read
//! in 8.1, seen in 7.2) then frees the guest's eventfds and never allocates them anew (`close_peer_eventfds`): the same
//! number a second time overwrites its heap, and it crashes. As nothing is sent to a guest that runs, a stopped one holds
//! up nobody. An interrupt for a guest that is down is lost.

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
    /// Creates the server for this many guests.
    ///
    /// # Errors
    /// [`Error::Broken`] if the machine has no memory or no descriptors for it.
    pub(crate) fn new(guests: usize) -> Result<Doorbells, Error> {
        let memory = memory::file("unrack-doorbell", &[0; PAGE])?;
        // QEMUs that write to it must not wait, either, if the guest is stopped.
        let made = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let interrupts = (0..guests).map(|_| made()).collect::<Result<_, _>>();
        let interrupts =
            interrupts.map_err(|why| Error::Broken(format!("the doorbells cannot be made: {why}")))?;
        Ok(Doorbells { memory, interrupts })
    }

    /// Connects a guest that is about to start, and drops the interrupts for it so far.
    /// Returns this end of the socket, which stays open until the guest ends, and QEMU's end.
    ///
    /// # Errors
    /// If there are no descriptors left, or they cannot be sent.
    pub(crate) fn connect(&self, number: usize) -> std::io::Result<(UnixStream, UnixStream)> {
        let (ours, theirs) = UnixStream::pair()?;
        match retry_on_intr(|| read(&self.interrupts[number], &mut [0; 8])) {
            Ok(_) | Err(Errno::AGAIN) => {}
            Err(why) => return Err(why.into()),
        }
        // QEMU waits forever for a message that is missing, and so all are in the socket before it starts.
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

/// Sends one message, without waiting. A stream socket takes 8 bytes whole or not at all.
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

    /// Receives the messages for a guest. Returns the eventfds of these guests, the last of which is its own.
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

    /// Returns how often a guest was interrupted since the last time.
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
        // The other one may be stopped, and reads nothing.
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
