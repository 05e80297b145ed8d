//! Cost of encryption for a call over TCP: plain and encrypted round trips over loopback, one at a time and with a
//! window.
//!
//! Client and server run in this process, in separate threads. The keys are in a folder that is removed afterwards.

use std::collections::VecDeque;
use std::time::{Duration, Instant};
use unrack_keys::Keys;
use unrack_keys::folder::{VARIABLE, trust};
use unrack_rpc::client::{CallWindow, Options};
use unrack_rpc::{Client, Server, server};

/// Time for which each figure is measured.
const TIME: Duration = Duration::from_millis(500);
const SIZES: [usize; 4] = [64, 4 << 10, 64 << 10, 1 << 20];
const WINDOW: usize = 16;

fn main() {
    if std::env::var_os(VARIABLE).is_none() {
        return with_keys();
    }
    println!("calls over TCP on loopback; us a round trip (p50), and calls a second with {WINDOW} under way");
    println!(
        "{:>10} {:>11} {:>11} {:>7}   {:>9} {:>9} {:>7}",
        "bytes", "plain us", "TLS us", "", "plain/s", "TLS/s", ""
    );
    for bytes in SIZES {
        let [plain, tls] = ["tcp", "tls"].map(|scheme| measure(scheme, bytes));
        println!(
            "{bytes:>10} {:>11.1} {:>11.1} {:>6.2}x   {:>9.0} {:>9.0} {:>6.2}x",
            plain.0,
            tls.0,
            tls.0 / plain.0,
            plain.1,
            tls.1,
            tls.1 / plain.1
        );
    }
}

/// Starts this program again with a folder of keys, in which the key trusts itself.
fn with_keys() {
    let folder = std::env::temp_dir().join(format!("unrack-bench-keys-{}", std::process::id()));
    let own = Keys::make(&folder).expect("a folder for keys").fingerprint();
    trust(&folder, own, "self").expect("a list of keys");
    let own = std::env::current_exe().expect("this program");
    let done = std::process::Command::new(own).env(VARIABLE, &folder).status();
    let _ = std::fs::remove_dir_all(&folder);
    assert!(done.expect("it starts").success());
}

/// Returns the median round trip of one call at a time in us, and the number of calls per second with a window.
fn measure(scheme: &str, bytes: usize) -> (f64, f64) {
    let serving = Server::new("echo", server::Options::default())
        .method("echo", |call| {
            let bytes = call.request().len();
            call.answer(bytes)?;
            Ok(())
        })
        .serve(format!("{scheme}://127.0.0.1:0"))
        .expect("a free port");
    let place = format!("{scheme}://{}", serving.address().expect("it listens"));
    let options = Options { window: CallWindow::Fixed(WINDOW as u16), ..Options::default() };
    let client = Client::connect(place, "echo", options).expect("it serves");
    let mut took = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < TIME {
        let one = Instant::now();
        client.request(bytes).expect("room").call("echo").expect("an answer");
        took.push(one.elapsed().as_nanos() as u64);
    }
    took.sort_unstable();
    (took[took.len() / 2] as f64 / 1e3, a_second(&client, bytes))
}

fn a_second(client: &Client, bytes: usize) -> f64 {
    let (mut pending, mut done) = (VecDeque::new(), 0u32);
    let begun = Instant::now();
    while begun.elapsed() < TIME {
        pending.push_back(client.request(bytes).expect("room").start("echo").expect("a slot"));
        if pending.len() > WINDOW {
            pending.pop_front().expect("some").wait().expect("an answer");
            done += 1;
        }
    }
    f64::from(done) / begun.elapsed().as_secs_f64()
}
