//! The pages of one session, by id: an index of dense chunks over a slab of blocks.
//!
//! A block that holds no page any more goes back to the system. The index costs 4 bytes for each id that
//! shares a chunk with a page held, which bounds what a hostile choice of ids can cost.

use crate::capacity::Part;
use unrack_pager::node::held::ById;
use unrack_pager::node::wire::PAGE;

pub type Page = [u8; PAGE];

/// 512 pages: 2 MiB.
const BLOCK: usize = 512;

/// A block with no page in use has no memory.
#[derive(Default)]
struct Block {
    memory: Vec<Page>,
    used: usize,
}

pub struct Pages {
    /// 1 + the page's place in the slab; 0: not held.
    places: ById<u32>,
    blocks: Vec<Block>,
    free: Vec<u32>,
    part: Part,
}

impl Pages {
    pub fn new(part: Part) -> Pages {
        Pages { places: ById::new(0), blocks: Vec::new(), free: Vec::new(), part }
    }

    pub fn held(&self) -> u64 {
        self.part.held()
    }

    pub fn get(&self, id: u32) -> Option<&Page> {
        let place = self.places.get(id).checked_sub(1)? as usize;
        Some(&self.blocks[place / BLOCK].memory[place % BLOCK])
    }

    /// The page to write to, made when there is none. `None`: no room.
    pub fn get_or_insert(&mut self, id: u32) -> Option<&mut Page> {
        let place = match self.places.get(id) {
            0 => self.insert(id)?,
            place => place - 1,
        } as usize;
        Some(&mut self.blocks[place / BLOCK].memory[place % BLOCK])
    }

    /// Returns whether there was one.
    pub fn remove(&mut self, id: u32) -> bool {
        let Some(place) = self.places.get(id).checked_sub(1) else { return false };
        *self.places.get_mut(id) = 0;
        self.free.push(place);
        let block = &mut self.blocks[place as usize / BLOCK];
        block.used -= 1;
        if block.used == 0 {
            block.memory = Vec::new();
        }
        self.part.give(1);
        true
    }

    fn insert(&mut self, id: u32) -> Option<u32> {
        if !self.part.take(1) {
            return None;
        }
        if self.free.is_empty() {
            let first = (self.blocks.len() * BLOCK) as u32;
            self.blocks.push(Block::default());
            self.free.extend((first..first + BLOCK as u32).rev());
        }
        let place = self.free.pop()?;
        let block = &mut self.blocks[place as usize / BLOCK];
        block.used += 1;
        if block.memory.is_empty() {
            block.memory = vec![[0; PAGE]; BLOCK];
        }
        *self.places.get_mut(id) = place + 1;
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::Capacity;

    #[test]
    fn pages_keep_their_contents_and_empty_blocks_go_back() {
        let capacity = Capacity::new(2000);
        let mut pages = Pages::new(Part::new(&capacity, 0).unwrap());
        for id in 0..1100 {
            pages.get_or_insert(id * 3).unwrap().fill(id as u8);
        }
        assert!((0..1100).all(|id| pages.get(id * 3).unwrap()[PAGE - 1] == id as u8));
        assert!((0..1000).all(|id| pages.remove(id * 3)));
        assert!(pages.get(0).is_none() && !pages.remove(0));
        assert_eq!(pages.blocks.iter().filter(|block| !block.memory.is_empty()).count(), 2);
        assert_eq!((capacity.free(), pages.held()), (1900, 100));
        drop(pages);
        assert_eq!(capacity.free(), 2000);
    }

    #[test]
    fn no_page_beyond_the_capacity_but_old_ones_can_be_written() {
        let capacity = Capacity::new(1);
        let mut pages = Pages::new(Part::new(&capacity, 0).unwrap());
        assert!(pages.get_or_insert(7).is_some());
        assert!(pages.get_or_insert(8).is_none());
        assert!(pages.get_or_insert(7).is_some());
    }
}
