//! The service of the benchmark: its methods, and how client and server read and write messages.

use crate::Error;
use std::path::Path;
use std::time::{Duration, Instant};
use unrack_rpc::client::Options;
use unrack_rpc::view::{View, ViewMut};
use unrack_rpc::{Client, Method};

/// Name of the service.
pub(crate) const SERVICE: &str = "bench";
/// Method that reads the request and writes an answer of the same length.
pub(crate) const TOUCH: Method = Method::named("touch");
/// Method that answers with the same number of bytes, without touching them.
pub(crate) const PASS: Method = Method::named("pass");
/// Method that returns the processor time that the server's process has used, in nanoseconds.
pub(crate) const PROCESSOR: Method = Method::named("processor");

/// Method that compares the request, and answers with the same number of bytes, to be compared by the client.
pub(crate) const MIRROR: Method = Method::named("mirror");
/// Method that answers with a stream of parts, to be compared by the client.
pub(crate) const PARTS: Method = Method::named("parts");

/// Longest time until a host knows of a service on another host.
const KNOWN: Duration = Duration::from_secs(10);

/// Waits until this host knows of the service, which another host may have started just now.
pub(crate) fn wait_for_service(pool: &Path) -> Result<(), Error> {
    use unrack_pool::wire::Denied;
    let start = Instant::now();
    loop {
        match Client::connect(pool, SERVICE, Options::default()) {
            Err(unrack_rpc::Error::Pool(unrack_pool::Error::Denied(Denied::NoService(_))))
                if start.elapsed() < KNOWN =>
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            connected => return connected.map(drop).map_err(Error::from),
        }
    }
}

/// Returns the sum of all whole words of a message.
#[inline]
pub(crate) fn read(message: View<'_>) -> u64 {
    let lines = message.len() / 64;
    let words = (lines * 8..message.len() / 8).map(|word| message.get::<u64>(word * 8).expect("inside"));
    let lines = (0..lines).map(|line| message.get::<[u64; 8]>(line * 64).expect("inside"));
    lines.flatten().chain(words).fold(0, u64::wrapping_add)
}

/// Writes all whole words of a message.
#[inline]
pub(crate) fn write(mut message: ViewMut<'_>, seed: u64) {
    let lines = message.len() / 64;
    for line in 0..lines {
        message.put(line * 64, [seed ^ line as u64; 8]).expect("inside");
    }
    for word in lines * 8..message.len() / 8 {
        message.put(word * 8, seed).expect("inside");
    }
}
