//! Sets of switch ports as rows of bits, with one bit per port. The hardware of the scheduler processes a whole row in
//! one clock cycle.

/// A set of ports.
#[derive(Debug, Clone)]
pub(super) struct PortSet(Vec<u64>);

/// One set of ports for each port of the switch.
#[derive(Debug, Clone)]
pub(super) struct PortSets {
    words: Vec<u64>,
    row: usize,
}

impl PortSet {
    /// Creates an empty set.
    pub(super) fn empty(ports: usize) -> PortSet {
        PortSet(vec![0; ports.div_ceil(64)])
    }
    /// Creates the set of all ports.
    pub(super) fn full(ports: usize) -> PortSet {
        let mut set = PortSet::empty(ports);
        (0..ports as u32).for_each(|port| set.insert(port));
        set
    }
    /// Adds a port.
    pub(super) fn insert(&mut self, port: u32) {
        self.0[port as usize / 64] |= 1 << (port % 64);
    }
    /// Removes a port.
    pub(super) fn remove(&mut self, port: u32) {
        self.0[port as usize / 64] &= !(1 << (port % 64));
    }
    /// Returns whether the set contains `port`.
    pub(super) fn contains(&self, port: u32) -> bool {
        self.0[port as usize / 64] >> (port % 64) & 1 == 1
    }
    /// Returns whether the set is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
    /// Returns the words of the set: bit b of word w is port 64 w + b.
    pub(super) fn words(&self) -> &[u64] {
        &self.0
    }
    /// Adds the ports of another set, given as its words.
    pub(super) fn add_all(&mut self, words: impl Iterator<Item = u64>) {
        self.0.iter_mut().zip(words).for_each(|(mine, more)| *mine |= more);
    }
    /// Removes word number `index` from the set and returns it. The word is empty afterwards.
    pub(super) fn take_word(&mut self, index: usize) -> u64 {
        std::mem::take(&mut self.0[index])
    }
}

impl PortSets {
    /// Creates an empty set for each port.
    pub(super) fn empty(ports: usize) -> PortSets {
        let row = ports.div_ceil(64);
        PortSets { words: vec![0; ports * row], row }
    }
    /// Adds `port` to the set of port `of`.
    pub(super) fn insert(&mut self, of: u32, port: u32) {
        self.words[of as usize * self.row + port as usize / 64] |= 1 << (port % 64);
    }
    /// Removes `port` from the set of port `of`.
    pub(super) fn remove(&mut self, of: u32, port: u32) {
        self.words[of as usize * self.row + port as usize / 64] &= !(1 << (port % 64));
    }
    /// Returns the words of the set of port `of`, restricted to the ports that are also in `within`.
    pub(super) fn meet<'a>(&'a self, of: u32, within: &'a PortSet) -> impl Iterator<Item = u64> + 'a {
        let start = of as usize * self.row;
        self.words[start..start + self.row].iter().zip(within.words()).map(|(a, b)| a & b)
    }
    /// Returns whether the set of port `of` and `within` have a port in common.
    pub(super) fn meets(&self, of: u32, within: &PortSet) -> bool {
        self.meet(of, within).any(|word| word != 0)
    }
}

/// Returns the ports in `word`, which is word number `index` of a set.
pub(super) fn ports_of(index: usize, mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        if word == 0 {
            return None;
        }
        let bit = word.trailing_zeros();
        word &= word - 1;
        Some(index as u32 * 64 + bit)
    })
}
