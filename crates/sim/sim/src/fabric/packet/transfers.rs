//! One-way transfers, as transports see them. A flow or a write is one transfer. A read or a read-modify-write is a request and, after the
//! request has arrived, an answer.

use super::super::slab::Slab;
use crate::fabric::stream::transfer_name;
use unrack_units::Time;
use unrack_workload::{Endpoints, MessageId, NodeId};

/// Bytes that one node sends to another.
#[derive(Debug, Clone, Copy)]
pub struct Transfer {
    pub message: MessageId,
    pub src: NodeId,
    pub dst: NodeId,
    pub bytes: u64,
    /// Number of packets that the transfer is cut into.
    pub segments: u32,
    pub role: TransferRole,
    /// Name by which both ends know the transfer. Among transfers of equal rank, the lowest name goes first.
    pub name: u32,
    /// Serial number that distinguishes the transfer from others with the same index; 0 if the transfer is over.
    pub serial: u32,
    /// Whether the last byte has arrived.
    pub delivered: bool,
    /// Whether the sender has finished.
    pub(super) closed: bool,
    /// Number of references: packets in flight, ends that hold the transfer, and answers to this request.
    pub(super) references: i32,
    /// Times of the earliest alarms that are set for the sender and for the receiver.
    pub(super) alarms: [Time; 2],
    /// Request that this transfer answers. The request is kept as long as the transfer.
    answers: Option<u32>,
}

/// Purpose of a transfer in its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferRole {
    /// Carries the data of a message. The message is complete when the transfer has arrived.
    Data,
    /// Carries a request. The answer is opened when the request has arrived.
    Request,
    /// Carries an answer to the request with this index. The first packet of the answer that arrives acknowledges the request.
    Answer(u32),
}

/// Transfers that are open, or that still have packets in flight.
pub(super) struct OpenTransfers {
    places: Slab<Transfer>,
    opened: u32,
    /// Names of the closed transfers, in a part of a split run. These transfers stay stored until they are forgotten.
    pub(super) closed: Option<Vec<u32>>,
}

impl OpenTransfers {
    pub(super) fn new() -> OpenTransfers {
        OpenTransfers { places: Slab::new(), opened: 0, closed: None }
    }

    pub(super) fn open(
        &mut self,
        message: MessageId,
        Endpoints { src, dst }: Endpoints,
        (bytes, segments): (u64, u32),
        role: TransferRole,
        answers: Option<u32>,
    ) -> u32 {
        if let Some(request) = answers {
            self.places[request].references += 1;
        }
        self.opened = self.opened.wrapping_add(1).max(1);
        let (serial, delivered, closed, references, alarms) = (self.opened, false, false, 0, [Time::MAX; 2]);
        let name = transfer_name(message, matches!(role, TransferRole::Answer(_)));
        self.places.insert(Transfer {
            message,
            src,
            dst,
            bytes,
            segments,
            role,
            name,
            serial,
            delivered,
            closed,
            references,
            alarms,
            answers,
        })
    }

    pub(super) fn drop_reference(&mut self, transfer: u32) {
        self.places[transfer].references -= 1;
        if self.closed.is_none() {
            self.free_if_over(transfer);
        }
    }

    pub(super) fn close(&mut self, transfer: u32) {
        self.places[transfer].closed = true;
        match &mut self.closed {
            Some(closed) => closed.push(self.places[transfer].name),
            None => self.free_if_over(transfer),
        }
    }

    fn free_if_over(&mut self, transfer: u32) {
        let place = &mut self.places[transfer];
        if place.references == 0 && place.closed && place.serial != 0 {
            self.forget(transfer);
        }
    }

    #[cfg(test)]
    pub(super) fn used(&self) -> usize {
        self.places.used()
    }

    /// Frees the index of a transfer for another transfer.
    pub(super) fn forget(&mut self, transfer: u32) {
        let place = &mut self.places[transfer];
        place.serial = 0;
        let answers = place.answers.take();
        self.places.release(transfer);
        if let Some(request) = answers {
            self.drop_reference(request);
        }
    }
}

impl std::ops::Index<u32> for OpenTransfers {
    type Output = Transfer;
    fn index(&self, transfer: u32) -> &Transfer {
        &self.places[transfer]
    }
}

impl std::ops::IndexMut<u32> for OpenTransfers {
    fn index_mut(&mut self, transfer: u32) -> &mut Transfer {
        &mut self.places[transfer]
    }
}
