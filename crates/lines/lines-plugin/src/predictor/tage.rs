//! TAGE predictor of conditional branches. Its tagged tables use histories of branch outcomes whose lengths increase
//! geometrically.
//!
//! Seznec and Michaud, A case for (partially) tagged geometric history length branch prediction, JILP 2006, section
//! 3.

/// Entries of the untagged base table, a power of two.
const BASE: usize = 1 << 12;
/// Entries of each tagged table, a power of two.
const TAGGED: usize = 1 << TAGGED_BITS;
const TAGGED_BITS: u32 = 10;
/// Bits of a tag.
const TAG_BITS: u32 = 9;
/// Number of recent branches whose outcomes each tagged table uses: L(i) = alpha^(i-1) L(1), section 2.1, with L(1) = 5
/// and L(5) = 130.
const LENGTHS: [u32; TABLES] = [5, 11, 25, 57, 130];
const TABLES: usize = 5;
/// Number of branches after which the usefulness counters are halved (section 3.2.3).
const AGING: u32 = 1 << 18;

/// Entry of a tagged table.
#[derive(Clone, Copy, Default)]
struct Entry {
    tag: u16,
    /// Prediction counter from -4 to 3. The entry predicts that the branch is taken if the counter is at least 0.
    counter: i8,
    /// Usefulness counter from 0 to 3.
    useful: u8,
}

/// Predictor of conditional branches.
pub(super) struct Tage {
    /// Counters of the untagged base table, from -2 to 1. A counter of at least 0 predicts that the branch is taken.
    base: Box<[i8; BASE]>,
    tables: Box<[[Entry; TAGGED]; TABLES]>,
    /// Outcomes of the most recent branches. Bit 0 of the first word is the outcome of the last branch.
    history: [u64; 3],
    folded: [Folded; TABLES],
    branches: u32,
}

/// History of one tagged table, folded to the number of bits of a table index and of a tag.
#[derive(Clone, Copy, Default)]
struct Folded {
    index: u32,
    tag: u32,
}

/// Position of a branch in the tables: its index in each table, and its tag in each tagged table.
struct TableIndices {
    base: usize,
    indices: [usize; TABLES],
    tags: [u16; TABLES],
}

impl Tage {
    pub(super) fn new() -> Tage {
        Tage {
            base: Box::new([0; BASE]),
            tables: Box::new([[Entry::default(); TAGGED]; TABLES]),
            history: [0; 3],
            folded: [Folded::default(); TABLES],
            branches: 0,
        }
    }

    /// Predicts a branch, trains the predictor with its outcome, and returns whether the prediction was wrong.
    pub(super) fn is_mispredicted(&mut self, address: u64, is_taken: bool) -> bool {
        let place = self.place(address);
        let provider = self.matching(&place, TABLES);
        let alternate = provider.and_then(|table| self.matching(&place, table));
        let other = self.prediction(&place, alternate);
        let predicted = self.final_prediction(&place, provider, other);
        self.learn(&place, provider, other, is_taken);
        if predicted != is_taken {
            self.allocate(&place, provider, is_taken);
        }
        self.age();
        self.remember(is_taken);
        predicted != is_taken
    }

    fn place(&self, address: u64) -> TableIndices {
        let hash = (address ^ address >> TAGGED_BITS) as u32;
        let mut place =
            TableIndices { base: address as usize % BASE, indices: [0; TABLES], tags: [0; TABLES] };
        for (table, folded) in self.folded.iter().enumerate() {
            place.indices[table] = (hash ^ hash >> (table + 1) ^ folded.index) as usize % TAGGED;
            // Departure: the paper folds the history a third time for the tag. Here the folding of the index is used
            // instead.
            place.tags[table] =
                ((address as u32 ^ folded.tag ^ folded.index << 1) & ((1 << TAG_BITS) - 1)) as u16;
        }
        place
    }

    /// Returns the table with the longest history, among the tables below `limit`, that has an entry for the branch.
    fn matching(&self, place: &TableIndices, limit: usize) -> Option<usize> {
        (0..limit).rev().find(|&table| self.tables[table][place.indices[table]].tag == place.tags[table])
    }

    fn prediction(&self, place: &TableIndices, table: Option<usize>) -> bool {
        match table {
            Some(table) => self.tables[table][place.indices[table]].counter >= 0,
            None => self.base[place.base] >= 0,
        }
    }

    /// Selects the prediction (section 3.1). The provider is the matching table with the longest history. The alternate
    /// prediction is preferred if the provider's entry is new, weak and not yet useful.
    fn final_prediction(&self, place: &TableIndices, provider: Option<usize>, other: bool) -> bool {
        let Some(table) = provider else { return other };
        let entry = self.tables[table][place.indices[table]];
        let is_new = entry.useful == 0 && matches!(entry.counter, -1 | 0);
        if is_new { other } else { entry.counter >= 0 }
    }

    /// Trains the predictor (section 3.2.1): updates the counter of the providing entry, and also its usefulness if its
    /// prediction differs from the alternate one.
    fn learn(&mut self, place: &TableIndices, provider: Option<usize>, other: bool, is_taken: bool) {
        let Some(table) = provider else {
            let counter = &mut self.base[place.base];
            *counter = step(*counter, is_taken, -2, 1);
            return;
        };
        let entry = &mut self.tables[table][place.indices[table]];
        let predicted = entry.counter >= 0;
        if predicted != other {
            entry.useful = if predicted == is_taken {
                (entry.useful + 1).min(3)
            } else {
                entry.useful.saturating_sub(1)
            };
        }
        entry.counter = step(entry.counter, is_taken, -4, 3);
    }

    /// After a misprediction, allocates an entry for the branch in a table with a longer history, in place of an entry
    /// that is not useful (section 3.2.2). If all candidate entries are useful, decreases their usefulness instead.
    fn allocate(&mut self, place: &TableIndices, provider: Option<usize>, is_taken: bool) {
        let longer = provider.map_or(0, |table| table + 1)..TABLES;
        let free = longer.clone().find(|&table| self.tables[table][place.indices[table]].useful == 0);
        let Some(table) = free else {
            for table in longer {
                let entry = &mut self.tables[table][place.indices[table]];
                entry.useful = entry.useful.saturating_sub(1);
            }
            return;
        };
        let counter = if is_taken { 0 } else { -1 };
        self.tables[table][place.indices[table]] = Entry { tag: place.tags[table], counter, useful: 0 };
    }

    fn age(&mut self) {
        self.branches = self.branches.wrapping_add(1);
        if self.branches.is_multiple_of(AGING) {
            self.tables.iter_mut().flatten().for_each(|entry| entry.useful >>= 1);
        }
    }

    fn remember(&mut self, is_taken: bool) {
        for (folded, length) in self.folded.iter_mut().zip(LENGTHS) {
            let oldest = (self.history[(length as usize - 1) / 64] >> ((length - 1) % 64)) as u32 & 1;
            let newest = is_taken as u32;
            folded.index = fold(folded.index, newest, oldest, length, TAGGED_BITS);
            folded.tag = fold(folded.tag, newest, oldest, length, TAG_BITS);
        }
        self.history[2] = self.history[2] << 1 | self.history[1] >> 63;
        self.history[1] = self.history[1] << 1 | self.history[0] >> 63;
        self.history[0] = self.history[0] << 1 | is_taken as u64;
    }
}

fn step(counter: i8, is_up: bool, least: i8, most: i8) -> i8 {
    if is_up { (counter + 1).min(most) } else { (counter - 1).max(least) }
}

/// Shifts the newest outcome into a history that is folded to `bits` bits, and removes the outcome that is `length`
/// branches old. This is the circular shift register of Michaud, A PPM-like, tag-based branch predictor, JILP 2005,
/// section 3.
fn fold(folded: u32, newest: u32, oldest: u32, length: u32, bits: u32) -> u32 {
    let shifted = (folded << 1 | newest) ^ oldest << (length % bits);
    (shifted ^ shifted >> bits) & ((1 << bits) - 1)
}
