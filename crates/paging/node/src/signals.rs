//! Runs a node until a signal ends it.

use crate::{Error, Options, RunningNode, Statistics};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

/// Runs a node until SIGINT or SIGTERM, and returns its statistics. Calls `started` once clients can reach the node, and calls `asked` with
/// the statistics at each SIGUSR1.
///
/// # Errors
/// If signals cannot be awaited, or the node cannot be started ([`RunningNode::start`]).
pub fn serve(
    options: &Options,
    started: impl FnOnce(&RunningNode),
    mut asked: impl FnMut(Statistics),
) -> Result<Statistics, Error> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGUSR1]).map_err(Error::Signals)?;
    let node = RunningNode::start(options)?;
    started(&node);
    for signal in signals.forever() {
        match signal {
            SIGUSR1 => asked(node.statistics()),
            _ => break,
        }
    }
    Ok(node.stop())
}
