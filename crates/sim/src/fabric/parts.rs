//! What the fabrics of a split run know of each other: see [`Split`](crate::engine::Split).

use std::sync::Arc;

/// One part of a network, by switches and their nodes.
pub(in crate::fabric) struct Part<P> {
    me: u32,
    /// By switch.
    part_of: Arc<[u32]>,
    /// Where each transfer that has been here is kept, by the name that all parts know it by.
    places: Vec<u32>,
    /// Transfers that are over for their sender, which is here.
    pub closed: Vec<u32>,
    /// What has crossed to other parts, and to which.
    pub crossed: Vec<(u32, P)>,
}

const NOWHERE: u32 = u32::MAX;

impl<P> Part<P> {
    pub fn new(me: u32, part_of: Arc<[u32]>) -> Part<P> {
        Part { me, part_of, places: Vec::new(), closed: Vec::new(), crossed: Vec::new() }
    }

    /// The other part that a switch belongs to.
    pub fn elsewhere(&self, switch: u32) -> Option<u32> {
        let part = self.part_of[switch as usize];
        (part != self.me).then_some(part)
    }

    pub fn place(&self, name: u32) -> Option<u32> {
        self.places.get(name as usize).copied().filter(|place| *place != NOWHERE)
    }

    pub fn keep(&mut self, name: u32, place: u32) {
        let name = name as usize;
        if name >= self.places.len() {
            self.places.resize(name + 1, NOWHERE);
        }
        self.places[name] = place;
    }

    /// Where it was.
    pub fn forget(&mut self, name: u32) -> Option<u32> {
        let place = self.place(name)?;
        self.places[name as usize] = NOWHERE;
        Some(place)
    }
}
