//! A node that runs until it is told to end.

use crate::{Error, Node, Options, Statistics};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;

/// Serves until SIGINT or SIGTERM, and returns what was done. `started` learns of the node when clients
/// can reach it; `asked` gets the statistics at each SIGUSR1.
///
/// # Errors
/// See [`Node::start`].
pub fn serve(
    options: &Options,
    started: impl FnOnce(&Node),
    mut asked: impl FnMut(Statistics),
) -> Result<Statistics, Error> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGUSR1]).map_err(Error::Signals)?;
    let node = Node::start(options)?;
    started(&node);
    for signal in signals.forever() {
        match signal {
            SIGUSR1 => asked(node.statistics()),
            _ => break,
        }
    }
    Ok(node.stop())
}
