//! Manager that serves until a signal ends it, or it is idle.

use super::{Error, Manager, Options};
use rustix::process::{Resource, Rlimit};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Serves until SIGINT or SIGTERM, or until idle for as long as [`Options::idle`] says. Calls `started` when
/// processes can connect.
///
/// # Errors
/// See [`Manager::start`].
pub fn serve(options: &Options, started: impl FnOnce()) -> Result<(), Error> {
    // A descriptor is needed for each segment and three for each process: raise the limit as far as allowed.
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let manager = Manager::start(options)?;
    started();
    let handle = signals.handle();
    let stopper = manager.stopper();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            if signals.forever().next().is_some() {
                stopper.stop();
            }
        });
        let ended = manager.wait();
        handle.close();
        ended
    })
}
