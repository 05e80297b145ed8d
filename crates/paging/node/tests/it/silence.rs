//! The memory of a dead client is freed: of one that was killed, one that is stopped and one whose link is down.

use crate::common::{Slot, options, pages, store};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use unrack_keys::EncryptionPolicy;
use unrack_node::{Listen, Options, RunningNode};
use unrack_pager::node::{Address, Client, ErrorKind, NodeSettings};
use unrack_testing::{TestFolder, TestRequirement, skip};

/// Silence after which the nodes of these tests give up a client.
const SILENCE: Duration = Duration::from_millis(1500);
/// Extra time for a busy machine.
const SLACK: Duration = Duration::from_secs(20);
const PAGES: u32 = 20;

fn node(listen: Option<Listen>, policy: EncryptionPolicy) -> RunningNode {
    let options = options(pages(100));
    let listen = listen.unwrap_or(options.listen.clone());
    RunningNode::start(&Options { listen, extent_pages: 32, silence: Some(SILENCE), policy, ..options })
        .unwrap()
}

/// Role of this program if a test started it: a client in a process of its own, with its node's address in the
/// environment. It holds pages and does what an idle pager does. It prints the error that ends it.
#[test]
#[ignore = "runs until it is killed"]
fn client_that_holds() {
    let Ok(place) = std::env::var("UNRACK_TEST_NODE") else { return };
    let address = match place.rsplit_once(':') {
        Some((ip, port)) => {
            let ip: std::net::Ipv4Addr = ip.parse().unwrap();
            Address::Tcp { ip: ip.octets(), port: port.parse().unwrap() }
        }
        None => Address::Shared(place),
    };
    let patience_ns = 2 * SILENCE.as_nanos() as u64;
    let settings = NodeSettings { patience_ns, ..NodeSettings::new(address) };
    // The client's network may not be up yet.
    let mut client = loop {
        match Client::connect(&settings) {
            Ok(client) => break client,
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    for id in 0..PAGES {
        store(&mut client, id, u64::from(id));
    }
    println!("holding");
    let mut done = Vec::new();
    let ended = loop {
        if let Err(error) = client.progress(&mut done) {
            break error;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    // In shared memory, too, a load must return the stored page or fail.
    let mut slot = Slot::with(7);
    // SAFETY: the slot lives until the client is dropped, further down.
    let loaded = unsafe { client.load(3, slot.address()) }.is_ok() && client.progress(&mut done).is_ok();
    assert!(!loaded || slot.holds(3));
    drop(client);
    println!("ended: {ended}");
}

/// Client process that holds pages, and ends with the test.
struct Other {
    process: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Other {
    fn start(mut command: Command, at: &str) -> Other {
        command.arg(std::env::current_exe().unwrap()).args([
            "--exact",
            "silence::client_that_holds",
            "--ignored",
            "--nocapture",
        ]);
        let mut process = command.env("UNRACK_TEST_NODE", at).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Other { process, lines }
    }

    fn holding(at: &str) -> Other {
        let mut other = Other::start(Command::new("env"), at);
        other.wait_for("holding");
        other
    }

    /// Returns the first line that contains this text.
    fn wait_for(&mut self, text: &str) -> String {
        self.lines.by_ref().map_while(Result::ok).find(|line| line.contains(text)).expect("its process ended")
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.process.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits until the node holds no page.
fn freed(node: &RunningNode, within: Duration) {
    let begun = Instant::now();
    while node.statistics().held_pages > 0 {
        assert!(begun.elapsed() < within + SLACK, "{}", node.statistics());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_a_killed_client_held_is_free_at_once() {
    let node = node(None, EncryptionPolicy::default());
    let other = Other::holding(&node.address().to_string());
    assert!(node.statistics().held_pages >= u64::from(PAGES));
    other.signal("KILL");
    freed(&node, Duration::ZERO);
    assert_eq!(node.statistics().silent_sessions, 0);
}

#[test]
fn what_a_stopped_client_held_is_free_and_it_is_told_when_it_goes_on() {
    let folder = TestFolder::new("stopped");
    for listen in [None, Some(Listen::Shared(folder.join("node.sock")))] {
        let node = node(listen, EncryptionPolicy::default());
        let mut other = Other::holding(&node.address().to_string());
        // A client that is alive and idle keeps its pages, since it sends pings.
        std::thread::sleep(3 * SILENCE);
        assert!(node.statistics().held_pages >= u64::from(PAGES), "{}", node.statistics());
        other.signal("STOP");
        freed(&node, SILENCE);
        assert_eq!(node.statistics().silent_sessions, 1);
        other.signal("CONT");
        let said = other.wait_for("ended: ");
        assert!(said.contains("--silence"), "{said}");
        node.stop();
    }
}

/// A stopped node owes answers and sends nothing: its clients get an error.
#[test]
fn a_client_gives_up_a_node_that_says_nothing() {
    let node = node(None, EncryptionPolicy::default());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (far, near) = (node.address().to_string(), std::thread::spawn(move || listener.accept().unwrap().0));
    let address = Address::Tcp { ip: [127, 0, 0, 1], port };
    let settings = NodeSettings { patience_ns: 300_000_000, ..NodeSettings::new(address) };
    // The 32 bytes of the greeting are passed on, and all later bytes held back.
    let passing = std::thread::spawn(move || {
        let mut near = near.join().unwrap();
        let mut far = std::net::TcpStream::connect(far).unwrap();
        let (mut back, mut to) = (far.try_clone().unwrap(), near.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut back, &mut to));
        let mut bytes = [0; 32];
        std::io::Read::read_exact(&mut near, &mut bytes).unwrap();
        std::io::Write::write_all(&mut far, &bytes).unwrap();
        near
    });
    let mut client = Client::connect(&settings).unwrap();
    let _held_back = passing.join().unwrap();
    assert_eq!(client.owed(), None);
    let mut slot = Slot::with(1);
    // SAFETY: the slot lives until the client is dropped.
    unsafe { client.store(1, slot.address()) }.unwrap();
    client.flush();
    let mut done = Vec::new();
    let error = loop {
        if let Err(error) = client.progress(&mut done) {
            break error;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(matches!(error.kind, ErrorKind::Silent { .. }), "{error}");
    drop(client);
    assert!(done.is_empty());
}

/// Runs the next test in a network namespace of its own, where the link between node and client goes down.
#[test]
fn what_a_client_behind_a_dead_link_held_is_free() {
    let run = |arguments: &[&str]| Command::new("unshare").args(arguments).output();
    let has_links = run(&["-n", "ip", "link", "add", "near", "type", "veth", "peer", "name", "far"]);
    if !has_links.is_ok_and(|output| output.status.success()) {
        return skip(TestRequirement::Namespaces, "needs root, namespaces and virtual links");
    }
    let own = std::env::current_exe().unwrap();
    let inside = ["--exact", "silence::inside_a_namespace", "--ignored", "--nocapture"];
    let done = run(&[&["-n", own.to_str().unwrap()], &inside[..]].concat()).unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}

/// Role of this program if the test above started it, in a namespace where links can be made.
#[test]
#[ignore = "makes network links: to be run in a namespace"]
fn inside_a_namespace() {
    let ip = |text: &str| {
        let done = Command::new("ip").args(text.split(' ')).output().unwrap();
        assert!(done.status.success(), "ip {text}: {}", String::from_utf8_lossy(&done.stderr));
    };
    if std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.connect("127.0.0.1:9")).is_ok() {
        panic!("this is no namespace of its own: loopback is up");
    }
    let mut command = Command::new("unshare");
    command.arg("-n");
    let mut other = Other::start(command, "10.9.9.1:7000");
    let id = other.process.id();
    // Until `unshare` is done, the process is still in our namespace.
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    while std::fs::read_link(format!("/proc/{id}/ns/net")).unwrap() == own {
        std::thread::sleep(Duration::from_millis(5));
    }
    ip(&format!("link add near type veth peer name far netns {id}"));
    ip("addr add 10.9.9.1/24 dev near");
    ip("link set near up");
    let there = Command::new("nsenter")
        .args([
            "-t",
            &id.to_string(),
            "-n",
            "sh",
            "-c",
            "ip addr add 10.9.9.2/24 dev far && ip link set far up",
        ])
        .status();
    assert!(there.unwrap().success());
    let listen = Listen::Tcp("10.9.9.1:7000".parse().unwrap());
    let node = node(Some(listen), EncryptionPolicy::Never);
    other.wait_for("holding");
    ip("link set near down");
    freed(&node, SILENCE);
    // The client notices as well, and says why in words.
    let said = other.wait_for("ended: ");
    assert!(!said.contains("error number"), "{said}");
    node.stop();
}

#[test]
fn a_node_beyond_loopback_needs_keys_and_says_how_to_have_them() {
    let listen = Listen::Tcp("0.0.0.0:0".parse().unwrap());
    let folder = TestFolder::new("no-keys");
    let policy = EncryptionPolicy::Always(folder.join("keys"));
    let said =
        RunningNode::start(&Options { policy, ..Options::new(listen, pages(10)) }).err().unwrap().to_string();
    assert!(said.contains("unrack keys make"), "{said}");
}
