//! Calls over encrypted connections: all that calls over TCP can do, between keys that trust each other.

use super::*;
use std::path::PathBuf;
use std::process::Command;
use unrack_keys::Keys;
use unrack_keys::folder::{VARIABLE, trust};
use unrack_testing::TestFolder;

/// Name of a key folder that is never made.
const NO_KEYS: &str = "no-keys";

/// Not a test by itself: the next one runs it, with a key folder of its own.
#[test]
#[ignore = "needs a key folder in the environment"]
fn with_keys() {
    let Some(folder) = std::env::var_os(VARIABLE).map(PathBuf::from) else { return };
    let own = Keys::make(&folder).unwrap().fingerprint();
    trust(&folder, own, "self").unwrap();
    let serving = service(server::Options::default()).serve("tls://127.0.0.1:0").unwrap();
    let address = serving.address().unwrap();
    let place = format!("tls://{address}");
    let client =
        Client::connect(&place, "test", Options { window: CallWindow::Fixed(8), ..Options::default() })
            .unwrap();
    assert_eq!(client.peer().to_string(), format!("test at {place}"));
    for bytes in [0, 1, 8, 4096, 16_383, 16_384, 65_535, 65_536, 1 << 20, 20_000_001] {
        let mut request = client.request(bytes).unwrap();
        let message: Vec<u8> = (0..bytes).map(|at| (at * 7 % 251) as u8).collect();
        request.body().copy_from(&message);
        assert!(request.call("echo").unwrap().body().to_vec() == message, "{bytes}");
    }
    let mut pending = std::collections::VecDeque::new();
    for number in 0..2000u64 {
        let mut request = client.request(8 + (number as usize * 977) % 40_000).unwrap();
        request.body().put(0, number).unwrap();
        pending.push_back((number, request.start("echo").unwrap()));
        if pending.len() > 8 {
            let (number, first) = pending.pop_front().unwrap();
            assert_eq!(first.wait().unwrap().body().get::<u64>(0).unwrap(), number);
        }
    }
    drop(pending);
    // A client without encryption is told; also the other way round.
    let said = connect(address, Options::default()).err().unwrap().to_string();
    assert!(said.contains("requires a trusted key"), "{said}");
    let (plain, at) = serve();
    let said = Client::connect(format!("tls://{at}"), "test", Options::default()).err().unwrap().to_string();
    assert!(said.contains("does not speak TLS"), "{said}");
    drop(plain);
    // Cut in the middle: the client connects again, and goes on.
    let between = Between::new(address);
    let place = format!("tls://{}", between.address);
    let client = Client::connect(place, "test", Options::default()).unwrap();
    for number in 0..20u64 {
        assert_eq!(words(&client, "sum", &[number, 1], 8).unwrap()[..8], (number + 1).to_le_bytes());
        between.cut();
    }
    // A key that is no longer trusted is refused from the next connection on.
    unrack_keys::folder::distrust(&folder, own).unwrap();
    let place = format!("tls://{address}");
    let said = Client::connect(place, "test", Options::default()).err().unwrap().to_string();
    assert!(said.contains("unrack keys trust"), "{said}");
}

#[test]
fn calls_between_keys_that_trust_each_other() {
    let folder = TestFolder::new("rpc-keys");
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tcp::encrypted::with_keys", "--ignored", "--nocapture"])
        .env(VARIABLE, folder.join("keys"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn beyond_loopback_there_are_keys_or_the_address_says_insecure() {
    // This process may have keys, but here the folder does not exist.
    let folder = TestFolder::new("rpc-no-keys");
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tcp::encrypted::without_keys", "--ignored", "--nocapture"])
        .env(VARIABLE, folder.join(NO_KEYS))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "needs a key folder in the environment"]
fn without_keys() {
    let Some(folder) = std::env::var_os(VARIABLE).map(PathBuf::from).filter(|it| it.ends_with(NO_KEYS))
    else {
        return;
    };
    let serve = |place: &str| service(server::Options::default()).serve(place);
    let said = serve("tcp://0.0.0.0:0").err().unwrap().to_string();
    let make = format!("unrack keys make {}", folder.display());
    assert!(said.contains(&make) && said.contains("tcp+insecure://"), "{said}");
    let serving = serve("tcp+insecure://0.0.0.0:0").unwrap();
    is_served(SocketAddr::from(([127, 0, 0, 1], serving.address().unwrap().port())));
    // Nothing is sent to an address that would need keys.
    let (begun, closed) = (Instant::now(), ClosedPort::new());
    let said = Client::connect(format!("tls://{}", closed.address()), "test", Options::default())
        .err()
        .unwrap()
        .to_string();
    assert!(said.contains("refused") || said.contains("unrack keys make"), "{said}");
    assert!(begun.elapsed() < PATIENCE);
}
