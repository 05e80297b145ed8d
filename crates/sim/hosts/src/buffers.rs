//! Sections of the pool, divided into buffers of one size each (DRack §4.2). Buffers have the addresses at which the
//! real pool would place them.
//!
//! The rules are those of `crates/pool/pool` with regions of one section, for one thread without a private cache. The
//! code is not shared, because there the buffers are in lock-free lists that threads share, the leases are in records
//! of the manager, and each step maps and unmaps memory. Instead, a test gives both implementations the same work, and
//! checks that each buffer has the same address in both.

use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a section: a huge page.
const SECTION: u64 = 2 << 20;

/// Sections that hosts may lease: the free sections of the fabric manager.
pub(crate) struct BufferStock {
    returned: BTreeSet<u64>,
    next: u64,
    end: u64,
}

impl BufferStock {
    /// Creates a stock of all whole sections in `bytes` bytes of memory.
    pub(super) fn new(bytes: u64) -> BufferStock {
        BufferStock { returned: BTreeSet::new(), next: 0, end: bytes / SECTION * SECTION }
    }

    /// Removes and returns the first free section.
    fn take(&mut self) -> Option<u64> {
        let new = self.next;
        self.returned.pop_first().or_else(|| {
            self.next = (self.next + SECTION).min(self.end);
            (new < self.end).then_some(new)
        })
    }
}

/// Buffers of a host.
#[derive(Clone)]
pub(crate) struct HostBuffers {
    classes: Vec<BufferClass>,
    /// Number of sections that the host has leased.
    held: usize,
    /// Leased sections that belong to no class.
    closed: BTreeSet<u64>,
}

#[derive(Clone)]
struct BufferClass {
    size: u64,
    /// Free buffers of each section of the class. The next buffer to take is last in its list.
    free: BTreeMap<u64, Vec<u64>>,
    /// Section from which buffers are taken.
    current: Option<u64>,
    /// Other sections with free buffers.
    partial: BTreeSet<u64>,
}

impl BufferClass {
    fn count(&self) -> usize {
        (SECTION / self.size) as usize
    }

    /// Removes a section from the class if none of its buffers is in use. Returns whether it did.
    fn close(&mut self, section: u64) -> bool {
        let unused = self.free.get(&section).is_some_and(|free| free.len() == self.count());
        if unused {
            self.free.remove(&section);
            self.partial.remove(&section);
        }
        unused
    }
}

impl HostBuffers {
    /// Creates an empty set of buffers, with a class for each size in bytes.
    pub(super) fn new(sizes: &[u64]) -> HostBuffers {
        let class = |size: &u64| BufferClass {
            size: *size,
            free: BTreeMap::new(),
            current: None,
            partial: BTreeSet::new(),
        };
        HostBuffers { classes: sizes.iter().map(class).collect(), held: 0, closed: BTreeSet::new() }
    }

    /// Returns the number of buffers in use.
    pub(super) fn used(&self) -> usize {
        let of = |class: &BufferClass| {
            let free: usize = class.free.values().map(Vec::len).sum();
            class.free.len() * class.count() - free
        };
        self.classes.iter().map(of).sum()
    }

    /// Takes a buffer and returns its address. Returns `None` if no section is left.
    pub(super) fn take(&mut self, class: u8, stock: &mut BufferStock) -> Option<u64> {
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

    /// Adds a section to a class and returns it: a leased section without a class, or one that another class does not
    /// need, or a new lease from the stock. Returns `None` if there is none.
    fn open(&mut self, class: usize, stock: &mut BufferStock) -> Option<u64> {
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
        let BufferClass { size, free, .. } = &mut self.classes[class];
        free.insert(section, (0..SECTION / *size).rev().map(|n| section + n * *size).collect());
        Some(section)
    }

    /// Frees a buffer. If it was the last buffer in use of its section, and the class takes buffers from another
    /// section, the section leaves the class. Sections without a class go back to the stock while there are more than
    /// one of them and more than a quarter of the leased sections.
    pub(super) fn free(&mut self, class: u8, buffer: u64, stock: &mut BufferStock) {
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
    use unrack_testing::TestFolder;
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
        /// Two hosts use three classes of buffers. Buffers do not overlap, all memory can be used, and free sections go
        /// back.
        #[test]
        fn buffers_do_not_overlap(steps in steps(2)) {
            let mut stock = BufferStock::new(4 * SECTION);
            let mut hosts = [HostBuffers::new(&SIZES), HostBuffers::new(&SIZES)];
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
                prop_assert_eq!(hosts.iter().map(HostBuffers::used).sum::<usize>(), held.len());
            }
            for (host, class, buffer) in held {
                hosts[host].free(class, buffer, &mut stock);
            }
            // Hosts keep the sections from which classes take buffers, and one section without a class.
            let sections = stock.returned.len() as u64 + (stock.end - stock.next) / SECTION;
            prop_assert_eq!(sections + hosts.iter().map(|host| host.held as u64).sum::<u64>(), 4);
            for host in hosts {
                let current = host.classes.iter().filter(|class| class.current.is_some()).count();
                prop_assert!(host.closed.len() <= 1 && host.held == current + host.closed.len());
            }
        }
    }

    /// The real pool, in its own folder.
    struct Pool {
        _folder: TestFolder,
        manager: Manager,
    }

    impl Pool {
        fn new(sections: u64) -> Pool {
            let folder = TestFolder::new("buffers");
            let capacity = Bytes::new(sections * SECTION);
            let options = Options { region_sections: 1, ..Options::new(folder.join("pool.sock"), capacity) };
            let manager = Manager::start(&options).expect("a manager starts");
            Pool { _folder: folder, manager }
        }
    }

    /// The same steps in the real pool place each buffer at the same offset from the first buffer.
    #[test]
    fn buffers_are_where_the_pool_places_them() {
        /// Number of sections of the pool, which is more than all steps can take.
        const SECTIONS: u64 = 310;
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        for _ in 0..16 {
            let pool = Pool::new(SECTIONS);
            let client = Client::connect(pool.manager.socket()).expect("the manager is there");
            let (arena, mut stock, mut buffers) =
                (client.arena(), BufferStock::new(SECTIONS * SECTION), HostBuffers::new(&SIZES));
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
