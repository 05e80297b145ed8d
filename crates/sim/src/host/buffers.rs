//! Sections of the pool, divided into buffers of one size each (DRack §4.2): where the pool for real would place them.
//!
//! The rules of `crates/pool` with regions of one section, as one thread without a cache of its own meets them. There they
//! are in free lists that threads share without a lock and in books of what the manager leased, which map and unmap
//! memory at each step; so what is shared is not code but what it does: a test gives both the same work, and each buffer has
//! to have the same address in both.

use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a section: a huge page.
const SECTION: u64 = 2 << 20;

/// Sections that hosts may take: what the fabric manager has.
pub(super) struct Stock {
    returned: BTreeSet<u64>,
    next: u64,
    end: u64,
}

impl Stock {
    pub fn new(bytes: u64) -> Stock {
        Stock { returned: BTreeSet::new(), next: 0, end: bytes / SECTION * SECTION }
    }

    /// The first one that is free.
    fn take(&mut self) -> Option<u64> {
        let new = self.next;
        self.returned.pop_first().or_else(|| {
            self.next = (self.next + SECTION).min(self.end);
            (new < self.end).then_some(new)
        })
    }
}

/// The buffers of a host.
#[derive(Clone)]
pub(super) struct Buffers {
    classes: Vec<Class>,
    /// Sections that it holds, and those of them that are of no class.
    held: usize,
    closed: BTreeSet<u64>,
}

#[derive(Clone)]
struct Class {
    size: u64,
    /// Its sections: the free buffers of each, the next one to take last.
    free: BTreeMap<u64, Vec<u64>>,
    /// The section that it takes from.
    current: Option<u64>,
    /// Others in which something is free.
    partial: BTreeSet<u64>,
}

impl Class {
    fn count(&self) -> usize {
        (SECTION / self.size) as usize
    }

    /// Lets a section go of which nothing is used.
    fn close(&mut self, section: u64) -> bool {
        let unused = self.free.get(&section).is_some_and(|free| free.len() == self.count());
        if unused {
            self.free.remove(&section);
            self.partial.remove(&section);
        }
        unused
    }
}

impl Buffers {
    pub fn new(sizes: &[u64]) -> Buffers {
        let class = |size: &u64| Class {
            size: *size,
            free: BTreeMap::new(),
            current: None,
            partial: BTreeSet::new(),
        };
        Buffers { classes: sizes.iter().map(class).collect(), held: 0, closed: BTreeSet::new() }
    }

    #[cfg(test)]
    pub fn used(&self) -> usize {
        let of = |class: &Class| {
            let free: usize = class.free.values().map(Vec::len).sum();
            class.free.len() * class.count() - free
        };
        self.classes.iter().map(of).sum()
    }

    /// The address of a buffer. `None`: there is no section left.
    pub fn take(&mut self, class: u8, stock: &mut Stock) -> Option<u64> {
        let number = class as usize;
        loop {
            let class = &mut self.classes[number];
            if let Some(free) = class.current.and_then(|section| class.free.get_mut(&section))
                && let Some(buffer) = free.pop()
            {
                return Some(buffer);
            }
            let next = match class.partial.pop_first() {
                Some(partial) => partial,
                None => self.open(number, stock)?,
            };
            self.classes[number].current = Some(next);
        }
    }

    /// A section for a class: one that is held, or that other classes do not need, or a new one.
    fn open(&mut self, class: usize, stock: &mut Stock) -> Option<u64> {
        if self.closed.is_empty() {
            for class in &mut self.classes {
                if let Some(section) = class.current.filter(|section| class.close(*section)) {
                    class.current = None;
                    self.closed.insert(section);
                }
            }
        }
        let section = match self.closed.pop_first() {
            Some(closed) => closed,
            None => {
                let leased = stock.take()?;
                self.held += 1;
                leased
            }
        };
        let Class { size, free, .. } = &mut self.classes[class];
        free.insert(section, (0..SECTION / *size).rev().map(|n| section + n * *size).collect());
        Some(section)
    }

    /// The buffer is free. Its section too, if that was the last of it and its class takes from another; what is more than
    /// a section and a quarter of what is held goes back.
    pub fn free(&mut self, class: u8, buffer: u64, stock: &mut Stock) {
        let class = &mut self.classes[class as usize];
        let section = buffer / SECTION * SECTION;
        let free = class.free.get_mut(&section).expect("of a section that is held");
        free.push(buffer);
        if class.current == Some(section) {
            return;
        }
        if class.close(section) {
            self.closed.insert(section);
            while self.closed.len() > (self.held / 4).max(1)
                && let Some(excess) = self.closed.pop_first()
            {
                self.held -= 1;
                stock.returned.insert(excess);
            }
        } else {
            class.partial.insert(section);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::strategy::ValueTree;
    use unrack_pool::{Client, Manager, Options};
    use unrack_testing::Folder;
    use unrack_units::Bytes;

    type Step = (usize, u8, bool, prop::sample::Index);

    fn steps(hosts: usize) -> impl Strategy<Value = Vec<Step>> {
        prop::collection::vec(
            (0..hosts, 0u8..3, prop::bool::weighted(0.45), any::<prop::sample::Index>()),
            1..300,
        )
    }

    const SIZES: [u64; 3] = [256 << 10, 512 << 10, 1 << 20];

    proptest! {
        /// Two hosts, three classes: no byte is two buffers', all of it can be used, and what is free goes back.
        #[test]
        fn buffers_do_not_overlap(steps in steps(2)) {
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
                prop_assert_eq!(hosts.iter().map(Buffers::used).sum::<usize>(), held.len());
            }
            for (host, class, buffer) in held {
                hosts[host].free(class, buffer, &mut stock);
            }
            // Those that classes take from stay with their hosts, and one that is of no class.
            let sections = stock.returned.len() as u64 + (stock.end - stock.next) / SECTION;
            prop_assert_eq!(sections + hosts.iter().map(|host| host.held as u64).sum::<u64>(), 4);
            for host in hosts {
                let current = host.classes.iter().filter(|class| class.current.is_some()).count();
                prop_assert!(host.closed.len() <= 1 && host.held == current + host.closed.len());
            }
        }
    }

    /// A pool in a folder of its own.
    struct Pool {
        _folder: Folder,
        manager: Manager,
    }

    impl Pool {
        fn new(sections: u64) -> Pool {
            let folder = Folder::new("buffers");
            let capacity = Bytes::new(sections * SECTION);
            let options = Options { region_sections: 1, ..Options::new(folder.join("pool.sock"), capacity) };
            let manager = Manager::start(&options).expect("a manager starts");
            Pool { _folder: folder, manager }
        }
    }

    /// The same steps in the pool for real: each buffer is at the same place, counted from the first one.
    #[test]
    fn buffers_are_where_the_pool_places_them() {
        /// More than all steps can take.
        const SECTIONS: u64 = 310;
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        for _ in 0..16 {
            let pool = Pool::new(SECTIONS);
            let client = Client::connect(pool.manager.socket()).expect("the manager is there");
            let (arena, mut stock, mut buffers) =
                (client.arena(), Stock::new(SECTIONS * SECTION), Buffers::new(&SIZES));
            let (mut base, mut held) = (None, Vec::new());
            let steps = steps(1).new_tree(&mut runner).expect("any list will do").current();
            for (_, class, frees, which) in steps {
                if frees && !held.is_empty() {
                    let (class, buffer, real) = held.swap_remove(which.index(held.len()));
                    buffers.free(class, buffer, &mut stock);
                    arena.free(real);
                    continue;
                }
                let real = arena.alloc(SIZES[class as usize]).expect("there is room");
                let buffer = buffers.take(class, &mut stock).expect("there is room");
                let base = *base.get_or_insert(real.offset() - buffer);
                assert_eq!(real.offset() - base, buffer, "class {class}, with {} held", held.len());
                held.push((class, buffer, real));
            }
        }
    }
}
