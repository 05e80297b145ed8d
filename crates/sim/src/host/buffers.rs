//! Sections of the pool, divided into buffers of one size each (DRack §4.2).
//!
//! The rules of the pool for real (`crates/pool`), without its memory: there, free lists are words in mappings that threads
//! share, which is most of that allocator and all that is unsafe in it. Here only addresses are.

use std::collections::BTreeMap;

/// Bytes of a section: a huge page.
const SECTION: u64 = 2 << 20;

/// Sections that hosts may take: what the fabric manager has.
pub(super) struct Stock {
    returned: Vec<u64>,
    next: u64,
    end: u64,
}

impl Stock {
    pub fn new(bytes: u64) -> Stock {
        Stock { returned: Vec::new(), next: 0, end: bytes / SECTION * SECTION }
    }

    fn take(&mut self) -> Option<u64> {
        let new = self.next;
        self.returned.pop().or_else(|| {
            self.next = (self.next + SECTION).min(self.end);
            (new < self.end).then_some(new)
        })
    }
}

/// The buffers of a host.
pub(super) struct Buffers {
    classes: Vec<Class>,
}

struct Class {
    size: u64,
    free: Vec<u64>,
    /// By section, how many of its buffers are used.
    used: BTreeMap<u64, u32>,
}

impl Buffers {
    pub fn new(sizes: &[u64]) -> Buffers {
        let class = |size: &u64| Class { size: *size, free: Vec::new(), used: BTreeMap::new() };
        Buffers { classes: sizes.iter().map(class).collect() }
    }

    #[cfg(test)]
    pub fn used(&self) -> u32 {
        self.classes.iter().flat_map(|class| class.used.values()).sum()
    }

    /// The address of a buffer. `None`: there is no section left.
    pub fn take(&mut self, class: u8, stock: &mut Stock) -> Option<u64> {
        let class = &mut self.classes[class as usize];
        if class.free.is_empty() {
            let section = stock.take()?;
            class.used.insert(section, 0);
            class.free.extend((0..SECTION / class.size).rev().map(|n| section + n * class.size));
        }
        let buffer = class.free.pop()?;
        *class.used.get_mut(&section_of(buffer)).expect("of a section that is held") += 1;
        Some(buffer)
    }

    /// The buffer is free; so is its section, if that is more than a section of free buffers.
    pub fn free(&mut self, class: u8, buffer: u64, stock: &mut Stock) {
        let class = &mut self.classes[class as usize];
        let section = section_of(buffer);
        class.free.push(buffer);
        let used = class.used.get_mut(&section).expect("of a section that is held");
        *used -= 1;
        if *used == 0 && class.free.len() as u64 >= 2 * (SECTION / class.size) {
            class.used.remove(&section);
            class.free.retain(|free| section_of(*free) != section);
            stock.returned.push(section);
        }
    }
}

fn section_of(buffer: u64) -> u64 {
    buffer / SECTION * SECTION
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Two hosts, two classes: no byte is two buffers', all of it can be used, and what is free goes back.
        #[test]
        fn buffers_do_not_overlap(steps in prop::collection::vec((0usize..2, 0u8..2, any::<bool>(), any::<prop::sample::Index>()), 1..400)) {
            const SIZES: [u64; 2] = [256 << 10, 512 << 10];
            let mut stock = Stock::new(4 * SECTION);
            let mut hosts = [Buffers::new(&SIZES), Buffers::new(&SIZES)];
            let mut held: Vec<(usize, u8, u64)> = Vec::new();
            for (host, class, frees, which) in steps {
                if frees && !held.is_empty() {
                    let (host, class, buffer) = held.swap_remove(which.index(held.len()));
                    hosts[host].free(class, buffer, &mut stock);
                } else if let Some(buffer) = hosts[host].take(class, &mut stock) {
                    let range = |class: u8, buffer: u64| buffer..buffer + SIZES[class as usize];
                    let new = range(class, buffer);
                    prop_assert!(new.end <= 4 * SECTION);
                    let apart = held.iter().map(|(_, class, buffer)| range(*class, *buffer));
                    prop_assert!(apart.into_iter().all(|old| old.end <= new.start || new.end <= old.start));
                    held.push((host, class, buffer));
                } else {
                    prop_assert!(stock.take().is_none(), "refused only if no section is left");
                }
            }
            for (host, class, buffer) in held {
                hosts[host].free(class, buffer, &mut stock);
            }
            // A section of each class stays with its host.
            let sections = stock.returned.len() as u64 + (stock.end - stock.next) / SECTION;
            prop_assert!(sections + hosts.iter().flat_map(|host| &host.classes).map(|class| class.used.len() as u64).sum::<u64>() == 4);
            prop_assert!(hosts.iter().flat_map(|host| &host.classes).all(|class| class.used.len() <= 2));
        }
    }
}
