//! A manager that runs until it is told to end, or nobody needs it.

use super::{Error, Manager, Options};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Serves until SIGINT or SIGTERM, or for as long as [`Options::idle`] says. `started` learns of it when processes can
/// connect.
///
/// # Errors
/// See [`Manager::start`].
pub fn serve(options: &Options, started: impl FnOnce()) -> Result<(), Error> {
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
