//! State that every fabric keeps for one part of a split run: see [`Split`](unrack_engine::events::Split).

use std::sync::Arc;

/// Part of a network: some switches with their nodes, simulated apart from the others.
pub(in crate::fabric) struct NetworkPart<P> {
    me: u32,
    /// Part of each switch.
    part_of: Arc<[u32]>,
    /// Index in this part of each transfer that has been here, by the transfer's name, which is the same in all parts.
    places: Vec<u32>,
    /// Names of transfers whose senders are in this part and have finished.
    pub closed: Vec<u32>,
    /// Items that have crossed to other parts, each with the number of its destination part.
    pub crossed: Vec<(u32, P)>,
}

const NOWHERE: u32 = u32::MAX;

impl<P> NetworkPart<P> {
    /// Creates the part `me`.
    pub(super) fn new(me: u32, part_of: Arc<[u32]>) -> NetworkPart<P> {
        NetworkPart { me, part_of, places: Vec::new(), closed: Vec::new(), crossed: Vec::new() }
    }

    /// Returns the part that a switch belongs to, or `None` if that is this part.
    pub(super) fn elsewhere(&self, switch: u32) -> Option<u32> {
        let part = self.part_of[switch as usize];
        (part != self.me).then_some(part)
    }

    /// Returns the index of a transfer in this part, or `None` if the transfer has none here.
    pub(super) fn place(&self, name: u32) -> Option<u32> {
        self.places.get(name as usize).copied().filter(|place| *place != NOWHERE)
    }

    /// Records the index of a transfer in this part.
    pub(super) fn keep(&mut self, name: u32, place: u32) {
        let name = name as usize;
        if name >= self.places.len() {
            self.places.resize(name + 1, NOWHERE);
        }
        self.places[name] = place;
    }

    /// Forgets a transfer and returns the index that it had.
    pub(super) fn forget(&mut self, name: u32) -> Option<u32> {
        let place = self.place(name)?;
        self.places[name as usize] = NOWHERE;
        Some(place)
    }
}
