//! A manager that runs until it is told to end, or nobody needs it.

use super::{Error, Manager, Options};
use rustix::process::{Resource, Rlimit};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Serves until SIGINT or SIGTERM, or for as long as [`Options::idle`] says. `started` learns of it when processes can
/// connect.
///
/// # Errors
/// See [`Manager::start`].
pub fn serve(options: &Options, started: impl FnOnce()) -> Result<(), Error> {
    // A descriptor for each segment and three for each process: as many as we may have.
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
        manager.wait();
        handle.close();
    });
    Ok(())
}
