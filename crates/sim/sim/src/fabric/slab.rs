//! Dense array of items that come and go. Items are named by index, and the index that was freed last is reused first.

/// Items that are named by index.
pub struct Slab<T> {
    places: Vec<T>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    /// Creates an array without items.
    pub fn new() -> Self {
        Slab { places: Vec::new(), free: Vec::new() }
    }

    /// Adds an item and returns its index.
    pub fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = value;
                place
            }
            None => {
                self.places.push(value);
                u32::try_from(self.places.len() - 1).expect("fewer than 2^32 at once")
            }
        }
    }

    /// Returns the number of indices in use.
    #[cfg(test)]
    pub fn used(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Returns all indices, in use or free.
    pub fn indices(&self) -> std::ops::Range<u32> {
        0..self.places.len() as u32
    }

    /// Frees an index for another item. The old item stays readable until the index is reused.
    pub fn release(&mut self, place: u32) {
        self.free.push(place);
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab::new()
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    fn index(&self, place: u32) -> &T {
        &self.places[place as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, place: u32) -> &mut T {
        &mut self.places[place as usize]
    }
}
