//! Search for better routings. It runs in a separate thread, because a search takes longer than packets can wait.

use crate::thread::{Callers, ThreadCommand};
use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;
use unrack_basis::SplitMix64;
use unrack_protocol::r2c2::selection::SelectionProblem;

/// Searches until all senders of problems are gone. `thread_of` maps a node to its thread.
pub(crate) fn run(
    asked: &Receiver<(u32, Box<SelectionProblem>)>,
    callers: &Callers,
    thread_of: impl Fn(u32) -> usize,
    mut random: SplitMix64,
) {
    // Threads of nodes have priority. If `nice` fails, this thread competes with them.
    let _ = rustix::process::nice(19);
    while let Ok((node, problem)) = asked.recv() {
        // Keep only the latest problem of each node among those that arrived, because earlier ones are out of date.
        let latest: BTreeMap<u32, Box<SelectionProblem>> =
            [(node, problem)].into_iter().chain(asked.try_iter()).collect();
        for (node, problem) in latest {
            let chosen = problem.solve(&mut || random.next_u64());
            if !chosen.is_empty() {
                callers.call(thread_of(node), ThreadCommand::Choose(node, chosen));
            }
        }
    }
}
