//! Rows of bits, one bit per port: what the hardware does for all ports in one cycle.

/// A set of ports.
#[derive(Debug, Clone)]
pub(super) struct PortSet(Vec<u64>);

/// For every port, a set of ports.
#[derive(Debug, Clone)]
pub(super) struct PortSets {
    words: Vec<u64>,
    row: usize,
}

impl PortSet {
    pub fn empty(ports: usize) -> PortSet {
        PortSet(vec![0; ports.div_ceil(64)])
    }
    pub fn full(ports: usize) -> PortSet {
        let mut set = PortSet::empty(ports);
        (0..ports as u32).for_each(|port| set.insert(port));
        set
    }
    pub fn insert(&mut self, port: u32) {
        self.0[port as usize / 64] |= 1 << (port % 64);
    }
    pub fn remove(&mut self, port: u32) {
        self.0[port as usize / 64] &= !(1 << (port % 64));
    }
    pub fn contains(&self, port: u32) -> bool {
        self.0[port as usize / 64] >> (port % 64) & 1 == 1
    }
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
    pub fn words(&self) -> &[u64] {
        &self.0
    }
    pub fn add_all(&mut self, words: impl Iterator<Item = u64>) {
        self.0.iter_mut().zip(words).for_each(|(mine, more)| *mine |= more);
    }
    pub fn take_word(&mut self, index: usize) -> u64 {
        std::mem::take(&mut self.0[index])
    }
}

impl PortSets {
    pub fn empty(ports: usize) -> PortSets {
        let row = ports.div_ceil(64);
        PortSets { words: vec![0; ports * row], row }
    }
    pub fn insert(&mut self, of: u32, port: u32) {
        self.words[of as usize * self.row + port as usize / 64] |= 1 << (port % 64);
    }
    pub fn remove(&mut self, of: u32, port: u32) {
        self.words[of as usize * self.row + port as usize / 64] &= !(1 << (port % 64));
    }
    /// The words of one port's set, each cut down to `within`.
    pub fn meet<'a>(&'a self, of: u32, within: &'a PortSet) -> impl Iterator<Item = u64> + 'a {
        let start = of as usize * self.row;
        self.words[start..start + self.row].iter().zip(within.words()).map(|(a, b)| a & b)
    }
    pub fn meets(&self, of: u32, within: &PortSet) -> bool {
        self.meet(of, within).any(|word| word != 0)
    }
}

/// The ports of word number `index` of a set.
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
