//! Ordinary programs in network namespaces behind two nodes of a rack. Skipped, with a message, without root or TAP.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use unrack_live::Error;
use unrack_protocol::r2c2::Params;
use unrack_rack::{Faults, Overrides, Scenario};
use unrack_testing::{TestFolder, TestRequirement, skip};
use unrack_torus::{Emulation, TorusPlan};

const ROLE: &str = "UNRACK_TEST_ROLE";
const BYTES: usize = 2_000_000;
const SCENARIO: &str = "\
[network]
topology = { kind = \"torus\", shape = [4, 4] }
link = { rate = \"200Mbps\", propagation = \"5us\" }
switch = { buffer = \"256KiB\" }
[fabric]
protocol = \"r2c2\"
[workload]
kind = \"flows\"
size = \"1KiB\"
load = \"1%\"
messages = 1
";

fn plan() -> TorusPlan {
    let scenario = Scenario::parse("test", SCENARIO, &Overrides::none()).and_then(unrack_sim::check).unwrap();
    TorusPlan::new(&scenario.network, &Faults::default(), &Params::default(), 1).unwrap()
}

fn content(n: usize) -> u8 {
    (n.wrapping_mul(0x9E37_79B1) >> 13) as u8
}

fn ip(arguments: &[&str]) -> Output {
    Command::new("ip").args(arguments).output().unwrap()
}

/// Namespaces, removed at the end of the test.
struct Namespaces([String; 2]);

impl Drop for Namespaces {
    fn drop(&mut self) {
        self.0.iter().for_each(|name| drop(ip(&["netns", "delete", name])));
    }
}

/// No test by itself: the sending or receiving program that the test below starts, with the role in the environment.
#[test]
fn an_end_of_a_stream() {
    match std::env::var(ROLE).as_deref() {
        Ok("receive") => {
            let mut bytes = Vec::new();
            let listener = TcpListener::bind("10.77.0.2:5001").unwrap();
            listener.accept().unwrap().0.read_to_end(&mut bytes).unwrap();
            assert!(bytes.iter().enumerate().all(|(n, byte)| *byte == content(n)));
            println!("received {} as sent", bytes.len());
        }
        Ok(_) => {
            let connect = || TcpStream::connect("10.77.0.2:5001");
            let mut tries = (0..200).filter_map(|_| {
                connect().inspect_err(|_| std::thread::sleep(Duration::from_millis(20))).ok()
            });
            let bytes: Vec<u8> = (0..BYTES).map(content).collect();
            tries.next().expect("the receiver listens").write_all(&bytes).unwrap();
        }
        Err(_) => {}
    }
}

#[test]
fn programs_reach_each_other_through_a_rack() {
    if let Err(why) = Command::new("ip").arg("-V").output() {
        return skip(TestRequirement::Iproute2, why);
    }
    let folder = TestFolder::new("gateway");
    let id = folder.word();
    let devices = ["a", "b"].map(|end| format!("unrack{id}{end}"));
    let gateways = [(0, devices[0].clone()), (10, devices[1].clone())];
    let rack = match Emulation::start_bridged(plan(), 2, &gateways) {
        Err(Error::Lacking(why)) => return skip(TestRequirement::Namespaces, why),
        rack => rack.unwrap(),
    };
    let names = Namespaces(["a", "b"].map(|end| format!("unrack-test-{id}-{end}")));
    for (n, (name, device)) in names.0.iter().zip(&devices).enumerate() {
        let output = ip(&["netns", "add", name]);
        if !output.status.success() {
            return skip(TestRequirement::Namespaces, String::from_utf8_lossy(&output.stderr));
        }
        assert!(ip(&["link", "set", "dev", device, "netns", name]).status.success());
        let address = format!("10.77.0.{}/24", n + 1);
        assert!(ip(&["-n", name, "address", "add", &address, "dev", device]).status.success());
        assert!(ip(&["-n", name, "link", "set", "dev", device, "up"]).status.success());
    }
    let me = std::env::current_exe().unwrap();
    let end = |name: &str, role: &str| {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", name]).arg(&me).args(["--exact", "an_end_of_a_stream", "--nocapture"]);
        command.env(ROLE, role).stdout(Stdio::piped()).spawn().unwrap()
    };
    let (receiver, mut sender) = (end(&names.0[1], "receive"), end(&names.0[0], "send"));
    assert!(sender.wait().unwrap().success());
    let received = String::from_utf8(receiver.wait_with_output().unwrap().stdout).unwrap();
    assert!(received.contains(&format!("received {BYTES} as sent")), "{received}");
    // The devices vanish with the rack, in whatever namespace they are.
    let is_there = || ip(&["-n", &names.0[0], "link", "show", "dev", &devices[0]]).status.success();
    assert!(is_there());
    drop(rack);
    assert!(!is_there());
}

#[test]
fn gateways_that_cannot_be_are_refused() {
    let refused = |gateways: &[(u32, &str)]| {
        let gateways: Vec<_> = gateways.iter().map(|(node, name)| (*node, name.to_string())).collect();
        Emulation::start_bridged(plan(), 1, &gateways).err().expect("refused").to_string()
    };
    assert!(refused(&[(16, "tap0")]).contains("no node 16 of 16"));
    assert!(refused(&[(1, "tap0"), (1, "tap1")]).contains("node 1 has two devices"));
    assert!(refused(&[(0, "a/b")]).contains("1 to 15"));
    assert!(refused(&[(0, "lo")]).contains("already"));
}
