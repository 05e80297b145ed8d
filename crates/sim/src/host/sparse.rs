//! Things of which there are many, most of them never used: made when they are first changed.
//!
//! What a message takes alone is found by carrying it in a network of its own, of which it uses little.

use std::ops::{Index, IndexMut};

/// `PAGE` of them are made at once.
pub(super) struct Sparse<T, const PAGE: usize> {
    /// Empty as long as they are not made.
    pages: Vec<Vec<T>>,
    blank: T,
    len: usize,
}

impl<T: Clone, const PAGE: usize> Sparse<T, PAGE> {
    pub fn new(len: u32, blank: T) -> Self {
        let len = len as usize;
        Sparse { pages: (0..len.div_ceil(PAGE)).map(|_| Vec::new()).collect(), blank, len }
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Those that are made: all others are as they were.
    pub fn made(&self) -> impl Iterator<Item = &T> {
        self.pages.iter().flatten()
    }
}

impl<T: Clone, const PAGE: usize> Index<usize> for Sparse<T, PAGE> {
    type Output = T;

    fn index(&self, number: usize) -> &T {
        debug_assert!(number < self.len);
        self.pages[number / PAGE].get(number % PAGE).unwrap_or(&self.blank)
    }
}

impl<T: Clone, const PAGE: usize> IndexMut<usize> for Sparse<T, PAGE> {
    fn index_mut(&mut self, number: usize) -> &mut T {
        debug_assert!(number < self.len);
        let page = &mut self.pages[number / PAGE];
        if page.is_empty() {
            page.resize(PAGE, self.blank.clone());
        }
        &mut page[number % PAGE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_made_is_as_it_was() {
        let mut sparse = Sparse::<u32, 16>::new(100, 7);
        sparse[40] += 1;
        assert!((0..100).all(|n| sparse[n] == if n == 40 { 8 } else { 7 }));
        assert_eq!(sparse.made().count(), 16);
    }
}
