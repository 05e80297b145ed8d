//! What flows carry: bytes that say whose they are, so that their destination knows whether they are the right ones.

use super::node::FlowKey;
use std::collections::HashMap;
use unrack_workload::random::mix;

/// Writes what a flow has at `offset`, as a part that begins there.
pub(crate) fn fill(flow: FlowKey, offset: u64, into: &mut [u8]) {
    let mut words = words(flow, offset);
    let (whole, rest) = into.as_chunks_mut::<8>();
    whole.iter_mut().zip(&mut words).for_each(|(place, word)| *place = word);
    let word = words.next().expect("there is no end of words");
    rest.copy_from_slice(&word[..rest.len()]);
}

/// Whether these are the bytes that [`fill`] wrote there.
fn is_content(flow: FlowKey, offset: u64, bytes: &[u8]) -> bool {
    let mut words = words(flow, offset);
    let (whole, rest) = bytes.as_chunks::<8>();
    let is_same = whole.iter().zip(&mut words).all(|(found, word)| *found == word);
    is_same && words.next().is_some_and(|word| rest == &word[..rest.len()])
}

fn words((src, number): FlowKey, offset: u64) -> impl Iterator<Item = [u8; 8]> {
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
    let first = mix(u64::from(src) << 48 | u64::from(number) << 32) ^ mix(offset);
    (0u64..).map(move |n| first.wrapping_add(n.wrapping_mul(STEP)).to_le_bytes())
}

/// What has come of flows, as whoever they are for sees it.
#[derive(Debug, Default)]
pub(crate) struct Checks(HashMap<FlowKey, Arrived>);

/// What came of a flow, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Arrived {
    pub bytes: u64,
    /// Not what was sent, or not there.
    pub wrong: u64,
}

impl Checks {
    pub fn deliver(&mut self, flow: FlowKey, offset: u64, bytes: &[u8]) {
        let arrived = self.0.entry(flow).or_default();
        if offset != arrived.bytes || !is_content(flow, offset, bytes) {
            arrived.wrong += bytes.len() as u64;
        }
        arrived.bytes += bytes.len() as u64;
    }

    /// The flow is complete.
    pub fn close(&mut self, flow: FlowKey) -> Arrived {
        self.0.remove(&flow).unwrap_or_default()
    }
}
