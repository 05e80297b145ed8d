//! Table indexed by page id: dense, and stored in chunks, so that growth never copies entries.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

const CHUNK: usize = 4096;

/// Table with a value for each page id.
pub struct ById<T> {
    chunks: Vec<Option<Box<[T]>>>,
    nothing: T,
}

impl<T: Copy> ById<T> {
    /// Makes a table in which every page id has the value `nothing`.
    pub fn new(nothing: T) -> ById<T> {
        ById { chunks: Vec::new(), nothing }
    }

    /// Returns the value of a page id.
    pub fn get(&self, id: u32) -> T {
        let chunk = self.chunks.get(id as usize / CHUNK).and_then(Option::as_deref);
        chunk.map_or(self.nothing, |chunk| chunk[id as usize % CHUNK])
    }

    /// Returns the value of a page id for modification.
    pub fn get_mut(&mut self, id: u32) -> &mut T {
        let at = id as usize / CHUNK;
        if at >= self.chunks.len() {
            self.chunks.resize_with(at + 1, || None);
        }
        let nothing = self.nothing;
        let chunk = self.chunks[at].get_or_insert_with(|| vec![nothing; CHUNK].into_boxed_slice());
        &mut chunk[id as usize % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_far_apart_do_not_meet() {
        let mut numbers = ById::new(0u64);
        *numbers.get_mut(5) = 1;
        *numbers.get_mut(1 << 25) = 2;
        assert_eq!(
            (numbers.get(5), numbers.get(1 << 25), numbers.get(6), numbers.get(1 << 24)),
            (1, 2, 0, 0)
        );
    }
}
