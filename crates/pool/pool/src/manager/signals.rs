//! Manager that serves until a signal stops it, or until it is idle.

use super::{Error, Manager, Options};
use rustix::process::{Resource, Rlimit};
use signal_hook::consts::{SIGBUS, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Serves until SIGINT or SIGTERM, or until the manager has been idle for the time in [`Options::idle`]. Calls
/// `started` when processes can connect.
///
/// # Errors
/// See [`Manager::start`].
pub fn serve(options: &Options, started: impl FnOnce()) -> Result<(), Error> {
    // The manager needs one descriptor for each segment and three for each process, so it raises its limit of
    // descriptors as far as allowed.
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    say_why_memory_is_gone()?;
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

/// Message that is printed before the manager ends because of SIGBUS.
const SHORTER: &[u8] = b"unrack: the pool's memory cannot be read any more (SIGBUS): its file was made shorter, or its device \
failed; the manager ends. Stop the programs that use the pool, then make the file or device whole and start the manager again\n";

/// Installs a handler that prints the reason before the process ends because of SIGBUS. The kernel sends SIGBUS to a
/// process that touches memory of a file that was truncated, or of a device that failed.
fn say_why_memory_is_gone() -> std::io::Result<()> {
    let end = || {
        let _ = rustix::io::write(rustix::stdio::stderr(), SHORTER);
        signal_hook::low_level::exit(1);
    };
    // SAFETY: the handler only writes once and ends the process, which signal handlers may do.
    unsafe { signal_hook::low_level::register(SIGBUS, end) }.map(drop)
}
