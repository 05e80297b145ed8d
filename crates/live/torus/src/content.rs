//! Content of flows. The bytes depend on the flow and on their offset, so that the destination can verify them.

use crate::node::SourceFlow;
use std::collections::HashMap;
use unrack_basis::{GOLDEN_GAMMA, mix};

/// Writes a flow's bytes from `offset` on, where `offset` is the start of a segment.
pub(crate) fn fill(flow: SourceFlow, offset: u64, into: &mut [u8]) {
    let mut words = words(flow, offset);
    let (whole, rest) = into.as_chunks_mut::<8>();
    whole.iter_mut().zip(&mut words).for_each(|(place, word)| *place = word);
    let word = words.next().expect("there is no end of words");
    rest.copy_from_slice(&word[..rest.len()]);
}

/// Returns whether `bytes` are those that [`fill`] writes at this offset.
fn is_content(flow: SourceFlow, offset: u64, bytes: &[u8]) -> bool {
    let mut words = words(flow, offset);
    let (whole, rest) = bytes.as_chunks::<8>();
    let is_same = whole.iter().zip(&mut words).all(|(found, word)| *found == word);
    is_same && words.next().is_some_and(|word| rest == &word[..rest.len()])
}

fn words((src, number): SourceFlow, offset: u64) -> impl Iterator<Item = [u8; 8]> {
    let first = mix(u64::from(src) << 48 | u64::from(number) << 32) ^ mix(offset);
    (0u64..).map(move |n| first.wrapping_add(n.wrapping_mul(GOLDEN_GAMMA)).to_le_bytes())
}

/// Verification of the flows that arrive at the nodes of one thread.
#[derive(Debug, Default)]
pub(crate) struct Checks(HashMap<SourceFlow, Arrived>);

/// Bytes of a flow that were delivered so far, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Arrived {
    pub bytes: u64,
    /// Bytes that differ from those sent, or that arrived at a wrong offset.
    pub wrong: u64,
}

impl Checks {
    /// Verifies the next bytes of a flow and counts them.
    pub(crate) fn deliver(&mut self, flow: SourceFlow, offset: u64, bytes: &[u8]) {
        let arrived = self.0.entry(flow).or_default();
        if offset != arrived.bytes || !is_content(flow, offset, bytes) {
            arrived.wrong += bytes.len() as u64;
        }
        arrived.bytes += bytes.len() as u64;
    }

    /// Removes a complete flow and returns its counts.
    pub(crate) fn close(&mut self, flow: SourceFlow) -> Arrived {
        self.0.remove(&flow).unwrap_or_default()
    }
}
