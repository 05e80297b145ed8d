//! Who looks for better routings: a thread of its own, for a search takes longer than packets can wait.

use super::thread::{Callers, Order};
use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;
use unrack_protocol::r2c2::selection::Problem;
use unrack_workload::random::mix;

/// Searches until nobody can ask any more. `thread_of` says where a node is.
pub(crate) fn run(
    asked: &Receiver<(u32, Box<Problem>)>,
    callers: &Callers,
    thread_of: impl Fn(u32) -> usize,
    mut random: u64,
) {
    // Nodes go first. Who cannot be so polite takes turns with them.
    let _ = rustix::process::nice(19);
    let mut random = || {
        random = random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(random)
    };
    while let Ok((node, problem)) = asked.recv() {
        // Of those that came meanwhile, the last of each node: others are no longer so.
        let latest: BTreeMap<u32, Box<Problem>> =
            [(node, problem)].into_iter().chain(asked.try_iter()).collect();
        for (node, problem) in latest {
            let chosen = problem.solve(&mut random);
            if !chosen.is_empty() {
                callers.call(thread_of(node), Order::Choose(node, chosen));
            }
        }
    }
}
