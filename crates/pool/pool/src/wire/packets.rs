//! Sending and receiving of packets with descriptors.

use super::{MOST_BYTES, MOST_DESCRIPTORS};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// Error for a message that does not belong to the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the message is not of the pool's protocol")]
pub struct Malformed;

/// Result of receiving from a socket.
pub enum ReceivedPacket {
    Packet(Vec<u8>, Vec<OwnedFd>),
    /// A packet that is longer than any message of the protocol.
    Malformed,
    /// The peer closed the connection.
    End,
}

/// Sends one packet, with descriptors.
///
/// # Errors
/// `EAGAIN` if the socket is nonblocking and full; any other error means that the connection is broken.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], beside: &[BorrowedFd<'_>]) -> rustix::io::Result<()> {
    send_with(socket, bytes, beside, SendFlags::NOSIGNAL)
}

/// Sends one packet without descriptors, without waiting for room in the socket.
///
/// # Errors
/// `EAGAIN` if the socket is full; any other error means that the connection is broken.
pub fn try_send(socket: BorrowedFd<'_>, bytes: &[u8]) -> rustix::io::Result<()> {
    send_with(socket, bytes, &[], SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}

fn send_with(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    beside: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !beside.is_empty() {
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(beside)), "there is room for all descriptors");
    }
    loop {
        match rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, flags) {
            Err(Errno::INTR) => {}
            sent => return sent.map(drop),
        }
    }
}

/// Receives one packet with its descriptors.
///
/// # Errors
/// `EAGAIN` if the socket is nonblocking and has no packet; any other error means that the connection is broken.
pub fn receive(socket: BorrowedFd<'_>) -> rustix::io::Result<ReceivedPacket> {
    let mut bytes = vec![0; MOST_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        let into = &mut [IoSliceMut::new(&mut bytes)];
        match rustix::net::recvmsg(socket, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            got => break got?,
        }
    };
    let mut beside = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            beside.extend(descriptors);
        }
    }
    if got.flags.contains(ReturnFlags::TRUNC) {
        return Ok(ReceivedPacket::Malformed);
    }
    if got.flags.contains(ReturnFlags::CTRUNC) {
        // Either this process has reached its limit of descriptors, or the packet has more descriptors than any
        // message. The packet therefore counts as having none, and the code that needs them refuses the message.
        beside.clear();
    }
    if got.bytes == 0 {
        return Ok(ReceivedPacket::End);
    }
    bytes.truncate(got.bytes);
    Ok(ReceivedPacket::Packet(bytes, beside))
}
