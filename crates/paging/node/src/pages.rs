//! Pages of one session by id. They occupy no more memory than the session is charged for.
//!
//! Pages are stored without gaps in blocks, which are mapped one by one. When a page is forgotten, the last page takes its place, and a
//! block without pages is unmapped. A session is charged for every page that was written since its block was mapped: up to [`BLOCK`] - 1
//! pages more than it stores, and never fewer than the pages that the kernel has allocated for it.
//!
//! The index is in mapped memory too, and shrinks with its contents. It takes at most [`INDEX_BYTES`] bytes per page, for which the session
//! is not charged.

use crate::index::PageIndex;
use crate::part::SessionPages;
use memmap2::MmapMut;
use unrack_wire::PAGE;

/// Contents of a page.
pub type Page = [u8; PAGE];

/// Pages of a block, which is mapped at once: 256 KiB. With smaller blocks, a node of 16 GiB with many short sessions would need more
/// mappings than a process may have (65,530).
pub const BLOCK: usize = 64;
/// Maximum bytes of index per page. An entry of 8 bytes in a table that is at least three sixteenths full needs 43 bytes; half as much
/// again is needed while the table grows or shrinks; and a page of ids per block adds 64 bytes per page.
pub const INDEX_BYTES: usize = 130;
/// Byte offset of the page ids in a block. They are in a separate page behind the block's pages.
const IDS: usize = BLOCK * PAGE;

/// Pages of one session.
pub struct NodePages {
    /// Place of each page, by page id.
    places: PageIndex,
    held: usize,
    blocks: Vec<MmapMut>,
    part: SessionPages,
}

impl NodePages {
    /// Makes an empty store whose pages are charged to `part`.
    pub fn new(part: SessionPages) -> NodePages {
        NodePages { places: PageIndex::new(), held: 0, blocks: Vec::new(), part }
    }

    /// Returns the number of pages for which the session is charged.
    pub fn charged(&self) -> u64 {
        self.part.held()
    }

    /// Returns the number of stored pages, which can be loaded.
    pub fn held(&self) -> u64 {
        self.held as u64
    }

    /// Returns the bytes of memory that the session occupies: written pages, their ids and the index.
    pub fn resident_bytes(&self) -> usize {
        self.charged() as usize * PAGE + self.places.bytes() + self.blocks.len() * PAGE
    }

    /// Returns a stored page, or `None` if there is no page with this id.
    pub fn get(&self, id: u32) -> Option<&Page> {
        self.places.get(id).map(|place| self.page(place))
    }

    /// Returns a page to write to, and adds it if it is not stored yet. Returns `None` if there is no room.
    pub fn get_or_insert(&mut self, id: u32) -> Option<&mut Page> {
        let place = match self.places.get(id) {
            Some(place) => place,
            None => self.insert(id)?,
        };
        Some(self.page_mut(place))
    }

    /// Forgets a page. Returns false if it was not stored.
    pub fn remove(&mut self, id: u32) -> bool {
        let Some(place) = self.places.remove(id) else { return false };
        self.held -= 1;
        let last = self.held as u32;
        if place != last {
            let (moved, id) = (*self.page(last), self.id(last));
            *self.page_mut(place) = moved;
            self.set_id(place, id);
            // Cannot fail: changing the place of an existing entry needs no memory.
            self.places.insert(id, place);
        }
        self.shrink();
        true
    }

    /// Adds a page at the end, and returns its place; `None` if there is no room.
    fn insert(&mut self, id: u32) -> Option<u32> {
        let place = self.held;
        let is_new = place as u64 == self.part.held();
        if is_new && !self.part.take(1) {
            return None;
        }
        let ready = self.has_block(place) && self.places.insert(id, place as u32);
        if !ready {
            // Memory is lacking, or there are too many mappings. The client sees the same answer as from a full node.
            self.shrink();
            return None;
        }
        self.held += 1;
        self.set_id(place as u32, id);
        Some(place as u32)
    }

    /// Maps the block of a place, if it is the next block. Returns false if that fails.
    fn has_block(&mut self, place: usize) -> bool {
        if place == self.blocks.len() * BLOCK {
            self.blocks.extend(MmapMut::map_anon((BLOCK + 1) * PAGE));
        }
        place < self.blocks.len() * BLOCK
    }

    /// Unmaps blocks without pages, and returns the pages that were charged for them to the account.
    fn shrink(&mut self) {
        let blocks = self.held.div_ceil(BLOCK);
        if blocks < self.blocks.len() || self.part.held() as usize > self.blocks.len() * BLOCK {
            self.blocks.truncate(blocks);
            self.part.give(self.part.held() - self.held as u64);
        }
    }

    /// Returns the id of the page at a place.
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

/// Returns the block of a place, and the byte offset of its page in the block.
fn split(place: u32) -> (usize, usize) {
    (place as usize / BLOCK, place as usize % BLOCK * PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_keys::shares::{Peer, PeerShares};

    fn alone(capacity: u64) -> (std::sync::Arc<PeerShares>, NodePages) {
        let shares = PeerShares::new(capacity, capacity);
        let part = SessionPages::new(shares.account(Peer::User(0)), 0).unwrap();
        (shares, NodePages::new(part))
    }

    #[test]
    fn pages_keep_their_contents_and_what_is_forgotten_goes_back() {
        let (node, mut pages) = alone(2000);
        for id in 0..1100 {
            pages.get_or_insert(id * 3).unwrap().fill(id as u8);
        }
        assert!((0..1100).all(|id| pages.get(id * 3).unwrap()[PAGE - 1] == id as u8));
        // Removes pages from the middle and the ends, and then pages all over.
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

    /// Checks the memory of the index when pages with distant ids are stored and forgotten.
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
