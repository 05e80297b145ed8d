//! One-way transfers: what transports carry. A flow or write is one; a read or rmw is a request and,
//! once that has arrived, an answer.

use super::super::slab::Slab;
use crate::fabric::stream::transfer_name;
use unrack_units::Time;
use unrack_workload::{MessageId, NodeId};

/// Bytes from one node to another.
#[derive(Debug, Clone, Copy)]
pub struct Transfer {
    pub message: MessageId,
    pub src: NodeId,
    pub dst: NodeId,
    pub bytes: u64,
    /// Packets that it is cut into.
    pub segments: u32,
    pub role: Role,
    /// What both ends know it by. Of equals, the lowest goes first.
    pub name: u32,
    /// Tells it from others that had its place.
    pub serial: u32,
    /// Its last byte has arrived.
    pub delivered: bool,
    /// Its sender has nothing more to do.
    pub(super) closed: bool,
    /// Packets under way, ends that keep it, and the answer to this request.
    pub(super) references: i32,
    /// The earliest alarm set by its sender, and by its receiver.
    pub(super) alarms: [Time; 2],
    /// The request that its sender answers by it, which is kept as long as this.
    answers: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Its end is the end of the message.
    Data,
    /// Its end opens the answer.
    Request,
    /// As data; its first packet to arrive acknowledges the request, the transfer of this number.
    Answer(u32),
}

/// All that are open, and those of whom packets are still under way.
pub(super) struct Transfers {
    places: Slab<Transfer>,
    opened: u32,
    /// In a part of a split run: names of those that were closed. Their places are kept until they are forgotten.
    pub(super) closed: Option<Vec<u32>>,
}

impl Transfers {
    pub(super) fn new() -> Transfers {
        Transfers { places: Slab::new(), opened: 0, closed: None }
    }

    pub(super) fn open(
        &mut self,
        message: MessageId,
        (src, dst): (NodeId, NodeId),
        (bytes, segments): (u64, u32),
        role: Role,
        answers: Option<u32>,
    ) -> u32 {
        if let Some(request) = answers {
            self.places[request].references += 1;
        }
        self.opened = self.opened.wrapping_add(1).max(1);
        let (serial, delivered, closed, references, alarms) = (self.opened, false, false, 0, [Time::MAX; 2]);
        let name = transfer_name(message, matches!(role, Role::Answer(_)));
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

    /// Its place may be another's.
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

impl std::ops::Index<u32> for Transfers {
    type Output = Transfer;
    fn index(&self, transfer: u32) -> &Transfer {
        &self.places[transfer]
    }
}

impl std::ops::IndexMut<u32> for Transfers {
    fn index_mut(&mut self, transfer: u32) -> &mut Transfer {
        &mut self.places[transfer]
    }
}
