//! The pages of one session, by id, in no more memory than it is charged for.
//!
//! Pages lie without gaps in blocks that are mapped one by one: where one is forgotten, the last one takes its place, and a
//! block that is empty is unmapped. Charged is every page that was written since its block was mapped, so a session is
//! charged for up to [`BLOCK`] - 1 pages more than it holds, and never for less than the machine gives it.
//!
//! The index is in mapped memory as well, and shrinks with its contents: at most [`INDEX_BYTES`] for each page, which is not
//! charged.

use crate::index::Index;
use crate::part::Part;
use memmap2::MmapMut;
use unrack_pager::node::wire::PAGE;

pub type Page = [u8; PAGE];

/// Pages that are mapped at once: 256 KiB. Smaller ones would be more mappings than a process may have (65,530) where
/// sessions come and go in a node of 16 GiB.
pub const BLOCK: usize = 64;
/// Index of a page, at most: 8 bytes in a table that is three sixteenths full at least (43), half as much while it grows or
/// shrinks, and a page of ids for each block (64).
pub const INDEX_BYTES: usize = 130;
/// The page behind a block's pages: their ids.
const IDS: usize = BLOCK * PAGE;

pub struct Pages {
    /// By id: the page's place.
    places: Index,
    held: usize,
    blocks: Vec<MmapMut>,
    part: Part,
}

impl Pages {
    pub fn new(part: Part) -> Pages {
        Pages { places: Index::new(), held: 0, blocks: Vec::new(), part }
    }

    /// Pages that are charged.
    pub fn charged(&self) -> u64 {
        self.part.held()
    }

    /// Pages that can be loaded.
    pub fn held(&self) -> u64 {
        self.held as u64
    }

    /// Bytes of blocks that were written, and of the index.
    pub fn resident_bytes(&self) -> usize {
        self.charged() as usize * PAGE + self.places.bytes() + self.blocks.len() * PAGE
    }

    pub fn get(&self, id: u32) -> Option<&Page> {
        self.places.get(id).map(|place| self.page(place))
    }

    /// The page to write to, made when there is none. `None`: no room.
    pub fn get_or_insert(&mut self, id: u32) -> Option<&mut Page> {
        let place = match self.places.get(id) {
            Some(place) => place,
            None => self.insert(id)?,
        };
        Some(self.page_mut(place))
    }

    /// Returns whether there was one.
    pub fn remove(&mut self, id: u32) -> bool {
        let Some(place) = self.places.remove(id) else { return false };
        self.held -= 1;
        let last = self.held as u32;
        if place != last {
            let (moved, id) = (*self.page(last), self.id(last));
            *self.page_mut(place) = moved;
            self.set_id(place, id);
            // An entry that is there: it needs no memory.
            self.places.insert(id, place);
        }
        self.shrink();
        true
    }

    fn insert(&mut self, id: u32) -> Option<u32> {
        let place = self.held;
        let is_new = place as u64 == self.part.held();
        if is_new && !self.part.take(1) {
            return None;
        }
        let ready = self.has_block(place) && self.places.insert(id, place as u32);
        if !ready {
            // No memory, or too many mappings: as if the node was full.
            self.shrink();
            return None;
        }
        self.held += 1;
        self.set_id(place as u32, id);
        Some(place as u32)
    }

    /// True if there is a block for this place, made if need be.
    fn has_block(&mut self, place: usize) -> bool {
        if place == self.blocks.len() * BLOCK {
            self.blocks.extend(MmapMut::map_anon((BLOCK + 1) * PAGE));
        }
        place < self.blocks.len() * BLOCK
    }

    /// Gives back blocks without a page, and what was charged for them.
    fn shrink(&mut self) {
        let blocks = self.held.div_ceil(BLOCK);
        if blocks < self.blocks.len() || self.part.held() as usize > self.blocks.len() * BLOCK {
            self.blocks.truncate(blocks);
            self.part.give(self.part.held() - self.held as u64);
        }
    }

    fn id(&self, place: u32) -> u32 {
        let (block, at) = (place as usize / BLOCK, IDS + place as usize % BLOCK * 4);
        u32::from_le_bytes(self.blocks[block][at..at + 4].try_into().expect("four bytes"))
    }

    fn set_id(&mut self, place: u32, id: u32) {
        let (block, at) = (place as usize / BLOCK, IDS + place as usize % BLOCK * 4);
        self.blocks[block][at..at + 4].copy_from_slice(&id.to_le_bytes());
    }

    fn page(&self, place: u32) -> &Page {
        let (block, at) = split(place);
        self.blocks[block][at..].first_chunk().expect("a block holds whole pages")
    }

    fn page_mut(&mut self, place: u32) -> &mut Page {
        let (block, at) = split(place);
        self.blocks[block][at..].first_chunk_mut().expect("a block holds whole pages")
    }
}

/// Block, and first byte in it.
fn split(place: u32) -> (usize, usize) {
    (place as usize / BLOCK, place as usize % BLOCK * PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_keys::shares::{Peer, Shares};

    fn alone(capacity: u64) -> (std::sync::Arc<Shares>, Pages) {
        let shares = Shares::new(capacity, capacity);
        let part = Part::new(shares.account(Peer::User(0)), 0).unwrap();
        (shares, Pages::new(part))
    }

    #[test]
    fn pages_keep_their_contents_and_what_is_forgotten_goes_back() {
        let (node, mut pages) = alone(2000);
        for id in 0..1100 {
            pages.get_or_insert(id * 3).unwrap().fill(id as u8);
        }
        assert!((0..1100).all(|id| pages.get(id * 3).unwrap()[PAGE - 1] == id as u8));
        // From the middle, the ends, and all over.
        assert!((0..1100).filter(|id| id % 11 != 5).all(|id| pages.remove(id * 3)));
        assert!(pages.get(0).is_none() && !pages.remove(0));
        assert!((5..1100).step_by(11).all(|id| pages.get(id * 3).unwrap()[0] == id as u8));
        assert_eq!(pages.held(), 100);
        assert!(pages.charged() < pages.held() + BLOCK as u64);
        assert_eq!(node.all().free(), 2000 - pages.charged());
        drop(pages);
        assert_eq!(node.all().free(), 2000);
    }

    #[test]
    fn no_page_beyond_the_capacity_but_old_ones_can_be_written() {
        let (_, mut pages) = alone(1);
        assert!(pages.get_or_insert(7).is_some());
        assert!(pages.get_or_insert(8).is_none());
        assert!(pages.get_or_insert(7).is_some());
        assert!(pages.remove(7) && pages.get_or_insert(8).is_some());
    }

    /// Ids far apart, stored and forgotten: the index goes with them.
    #[test]
    fn ids_of_a_hostile_choice_cost_no_more_than_others() {
        let (node, mut pages) = alone(5000);
        for id in 0..4096u32 {
            pages.get_or_insert(id << 14).unwrap().fill(1);
            assert!(pages.resident_bytes() <= pages.charged() as usize * (PAGE + INDEX_BYTES) + 2 * PAGE);
        }
        for id in 0..4096u32 {
            assert!(pages.remove(id << 14));
            assert!(pages.resident_bytes() <= pages.charged() as usize * (PAGE + INDEX_BYTES) + 2 * PAGE);
        }
        assert_eq!((node.all().free(), pages.blocks.len()), (5000, 0));
    }
}
