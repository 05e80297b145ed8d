//! Common state of one part of a split run: see [`Split`](unrack_engine::events::Split).

use std::sync::Arc;

/// Part of a network: some switches with their nodes.
pub(in crate::fabric) struct Part<P> {
    me: u32,
    /// Part of each switch.
    part_of: Arc<[u32]>,
    /// Index in this part of each transfer that has been here, by the name that all parts know it by.
    places: Vec<u32>,
    /// Names of transfers whose senders are here and have nothing more to do.
    pub closed: Vec<u32>,
    /// Items that have crossed to other parts, and the numbers of these parts.
    pub crossed: Vec<(u32, P)>,
}

const NOWHERE: u32 = u32::MAX;

impl<P> Part<P> {
    /// Creates the part `me`.
    pub(super) fn new(me: u32, part_of: Arc<[u32]>) -> Part<P> {
        Part { me, part_of, places: Vec::new(), closed: Vec::new(), crossed: Vec::new() }
    }

    /// Returns the part of a switch, if that is another part.
    pub(super) fn elsewhere(&self, switch: u32) -> Option<u32> {
        let part = self.part_of[switch as usize];
        (part != self.me).then_some(part)
    }

    /// Returns the index of a transfer in this part, if it has one.
    pub(super) fn place(&self, name: u32) -> Option<u32> {
        self.places.get(name as usize).copied().filter(|place| *place != NOWHERE)
    }

    /// Notes the index of a transfer in this part.
    pub(super) fn keep(&mut self, name: u32, place: u32) {
        let name = name as usize;
        if name >= self.places.len() {
            self.places.resize(name + 1, NOWHERE);
        }
        self.places[name] = place;
    }

    /// Forgets a transfer; returns the index that it had.
    pub(super) fn forget(&mut self, name: u32) -> Option<u32> {
        let place = self.place(name)?;
        self.places[name as usize] = NOWHERE;
        Some(place)
    }
}
