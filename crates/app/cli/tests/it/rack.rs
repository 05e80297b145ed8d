//! `unrack rack`: programs on hosts that are network namespaces. Where these cannot be made, tests are skipped with a
//! message.

use crate::desk;

use desk::{Desk, example, stderr, stdout};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use unrack_testing::{TestRequirement, skip};

const ROLE: &str = "UNRACK_TEST_ROLE";
/// Host that a role connects to, or a folder in which roles meet.
const TO: &str = "UNRACK_TEST_TO";
/// Bytes of a piece that is answered.
const PIECE: usize = 50_000;
/// Connections over loopback, one after the other.
const ROUNDS: usize = 8;
const BYTES: usize = 6_000_000;
const PORT: u16 = 5001;
/// Streams of which one at least has to be sent by both NICs.
const STREAMS: usize = 5;

/// Racks that are taken down at the end of the test.
struct Racks {
    desk: Desk,
    state: String,
}

impl Racks {
    /// Builds racks; `None` if this machine cannot.
    fn up(name: &str, sets: &[&str]) -> Option<Racks> {
        let desk = Desk::new(name);
        let racks = Racks { state: desk.path("state"), desk };
        let scenario = example("drack-2x2.toml");
        let mut arguments = vec!["rack", "up", &scenario, "--state", &racks.state];
        sets.iter().for_each(|set| arguments.extend(["--set", set]));
        let output = racks.desk.unrack(&arguments);
        if output.status.code() == Some(3) {
            let has_ip = Command::new("ip").arg("-V").output().is_ok();
            skip(
                if has_ip { TestRequirement::Namespaces } else { TestRequirement::Iproute2 },
                stderr(&output),
            );
            return None;
        }
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stdout(&output).ends_with("host3\n"));
        Some(racks)
    }

    fn command(&self, host: &str, program: &[&str]) -> Command {
        self.command_with(host, &[], program)
    }

    fn command_with(&self, host: &str, options: &[&str], program: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unrack"));
        command.args(["rack", "exec", host, "--state", &self.state]).args(options).arg("--").args(program);
        command
    }

    fn run(&self, host: &str, program: &[&str]) -> Output {
        self.command(host, program).output().unwrap()
    }

    /// Starts this very program on a host, as one end of a stream.
    fn role(&self, host: &str, role: &str) -> Child {
        let me = std::env::current_exe().unwrap();
        let mut command =
            self.command(host, &[me.to_str().unwrap(), "--exact", "rack::an_end_of_a_stream", "--nocapture"]);
        command.env(ROLE, role).stdout(Stdio::piped()).spawn().unwrap()
    }

    /// Starts this very program on a host, which asks the broker of sockets at its first call.
    fn sockets_role(&self, host: &str, options: &[&str], role: &str, to: &str) -> Child {
        let me = std::env::current_exe().unwrap();
        let program = [me.to_str().unwrap(), "--exact", "rack::an_end_of_a_stream", "--nocapture"];
        let mut command = self.command_with(host, options, &program);
        command.env(ROLE, role).env(TO, to).env("UNRACK_SOCKETS_AFTER", "1");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Sends pieces from host 0 to another one, which answers each, with these options of `rack exec`. Returns what both
    /// commands said, and the bytes that host 0 sent by NICs.
    fn exchange(&self, to: &str, [sends, receives]: [&[&str]; 2]) -> (String, u64) {
        let before: u64 = self.sent_by_nics().iter().sum();
        let receiver = self.sockets_role(to, receives, "answer", "");
        let sender = self.sockets_role("0", sends, "ask", &format!("host{to}"));
        let [sender, receiver] = [sender, receiver].map(|end| end.wait_with_output().unwrap());
        let received = stdout(&receiver);
        assert!(received.contains(&format!("received {BYTES} as sent")), "{received} {}", stderr(&receiver));
        assert!(sender.status.success(), "{}", stderr(&sender));
        let after: u64 = self.sent_by_nics().iter().sum();
        (stderr(&sender) + &stderr(&receiver), after - before)
    }

    /// Sends from host 0 to host 2, and calls `meanwhile` during the stream. Returns the bytes that each NIC of host 0
    /// has sent.
    fn stream(&self, meanwhile: impl FnOnce()) -> Vec<u64> {
        let receiver = self.role("2", "receive");
        let mut sender = self.role("0", "send");
        std::thread::sleep(Duration::from_millis(150));
        meanwhile();
        let received = stdout(&receiver.wait_with_output().unwrap());
        assert!(received.contains(&format!("received {BYTES} as sent")), "{received}");
        assert!(sender.wait().unwrap().success());
        self.sent_by_nics()
    }

    fn sent_by_nics(&self) -> Vec<u64> {
        let script = "for nic in /sys/class/net/nic*; do cat $nic/statistics/tx_bytes; done";
        stdout(&self.run("0", &["sh", "-c", script])).lines().map(|line| line.parse().unwrap()).collect()
    }

    fn down(&self) -> String {
        let output = self.desk.unrack(&["rack", "down", "--state", &self.state]);
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    }
}

impl Drop for Racks {
    fn drop(&mut self) {
        self.desk.unrack(&["rack", "down", "--state", &self.state]);
    }
}

fn content(n: usize) -> u8 {
    (n.wrapping_mul(0x9E37_79B1) >> 13) as u8
}

/// Connects, once somebody listens.
fn connected(to: (&str, u16)) -> TcpStream {
    let connect = || TcpStream::connect(to);
    let tries =
        (0..200).find_map(|_| connect().inspect_err(|_| std::thread::sleep(Duration::from_millis(20))).ok());
    tries.expect("the receiver listens")
}

/// No test by itself: a program without any knowledge of racks, which the tests start on hosts.
#[test]
fn an_end_of_a_stream() {
    match std::env::var(ROLE).as_deref() {
        Ok("receive") => {
            // It listens to the end: the kernel takes further subflows only while there is a listener.
            let listener = TcpListener::bind(("0.0.0.0", PORT)).unwrap();
            let mut peer = listener.accept().unwrap().0;
            let mut bytes = Vec::new();
            peer.read_to_end(&mut bytes).unwrap();
            assert!(bytes.iter().enumerate().all(|(n, byte)| *byte == content(n)));
            println!("received {} as sent", bytes.len());
        }
        Ok("answer") => {
            let mut peer = TcpListener::bind(("0.0.0.0", PORT)).unwrap().accept().unwrap().0;
            let (mut piece, mut received) = (vec![0; PIECE], 0);
            while received < BYTES {
                peer.read_exact(&mut piece).unwrap();
                assert!((received..).zip(&piece).all(|(n, byte)| *byte == content(n)));
                received += PIECE;
                peer.write_all(&[1]).unwrap();
            }
            assert_eq!(peer.read(&mut piece).unwrap(), 0);
            println!("received {received} as sent");
        }
        Ok("ask") => {
            let to = std::env::var(TO).unwrap();
            let mut peer = connected((to.as_str(), PORT));
            for from in (0..BYTES).step_by(PIECE) {
                peer.write_all(&(from..from + PIECE).map(content).collect::<Vec<u8>>()).unwrap();
                peer.read_exact(&mut [0]).unwrap();
            }
        }
        Ok("loopback") => {
            let (own, all) = (std::process::id(), PathBuf::from(std::env::var(TO).unwrap()));
            let mut steps = 0;
            let mut meet = || {
                steps += 1;
                std::fs::write(all.join(format!("{own}-{steps}")), "").unwrap();
                let are_there = (0..4000).any(|_| {
                    std::thread::sleep(Duration::from_millis(5));
                    std::fs::read_dir(&all).unwrap().count() >= 2 * steps
                });
                assert!(are_there, "the other host's program has ended before step {steps}");
            };
            for port in (PORT..).take(ROUNDS) {
                let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
                let mut ours = connected(("127.0.0.1", port));
                let mut theirs = listener.accept().unwrap().0;
                assert_eq!(ours.local_addr().unwrap().port(), 40_000);
                for end in [&ours, &theirs] {
                    end.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                }
                meet();
                let mut got = [0; 4];
                for n in 0..100 {
                    let sent = (own ^ n << 20).to_le_bytes();
                    ours.write_all(&sent).unwrap();
                    if n == 0 {
                        // One end of each has asked: a broker that took both connections for one would often pair ends of
                        // different hosts now.
                        meet();
                    }
                    theirs.read_exact(&mut got).unwrap();
                    assert_eq!(got, sent);
                    theirs.write_all(&sent).unwrap();
                    ours.read_exact(&mut got).unwrap();
                    assert_eq!(got, sent);
                }
                meet();
            }
            println!("all came back");
        }
        Ok("turns") => {
            let listener = TcpListener::bind(("0.0.0.0", PORT)).unwrap();
            let streams = [(); 4].map(|()| TcpStream::connect(("host1", PORT)).unwrap());
            let peers = streams.map(|stream| stream.peer_addr().unwrap().ip().to_string());
            drop(listener);
            let datagrams = UdpSocket::bind(("0.0.0.0", 0)).unwrap();
            datagrams.connect(("host2", PORT)).unwrap();
            println!("to {} and {}", peers.join(" "), datagrams.peer_addr().unwrap());
        }
        Ok(_) => {
            let bytes: Vec<u8> = (0..BYTES).map(content).collect();
            connected(("host2", PORT)).write_all(&bytes).unwrap();
        }
        Err(_) => {}
    }
}

#[test]
fn a_connection_has_the_nics_of_its_rack_and_outlives_one() {
    let Some(racks) = Racks::up("pool", &[]) else { return };
    // The kernel adds the second NIC to a connection when it finds time: on a busy machine, a stream can be over before.
    let share = (BYTES / 4) as u64..=BYTES as u64;
    let mut before = racks.sent_by_nics();
    assert_eq!(before.len(), 2);
    let is_by_both = (0..STREAMS).any(|_| {
        let after = racks.stream(|| {});
        let sent: Vec<u64> = after.iter().zip(&before).map(|(after, before)| after - before).collect();
        before = after;
        println!("by NICs: {sent:?}");
        sent.iter().all(|sent| share.contains(sent))
    });
    assert!(is_by_both, "none of {STREAMS} streams");
    // A NIC fails in the middle of a stream.
    racks.stream(|| {
        let output = racks.run("0", &["ip", "link", "set", "nic1", "down"]);
        assert!(output.status.success(), "{}", stderr(&output));
    });
}

#[test]
fn connections_take_turns_at_the_nics_of_a_rack() {
    let Some(racks) = Racks::up("turns", &[]) else { return };
    let said = stdout(&racks.role("host1", "turns").wait_with_output().unwrap());
    let turns = ["10.0.0.2 10.0.1.2 10.0.0.2 10.0.1.2", "10.0.1.2 10.0.0.2 10.0.1.2 10.0.0.2"];
    // A datagram goes to the address that it is sent to.
    let is_right = |turns: &&str| said.contains(&format!("to {turns} and 10.1.0.1:{PORT}"));
    assert!(turns.iter().any(is_right), "{said}");
}

#[test]
fn bytes_within_a_rack_pass_by_reference_and_not_by_nics() {
    let Some(racks) = Racks::up("sockets", &[]) else { return };
    let sockets: &[&str] = &["--sockets"];
    let (said, by_nics) = racks.exchange("1", [sockets, sockets]);
    assert!(said.contains("1 connection by reference"), "{said}");
    assert!(by_nics < BYTES as u64 / 10, "{by_nics} bytes went by NICs");
    // Plain TCP changes over as well.
    let tcp: &[&str] = &["--sockets", "--tcp"];
    let (said, by_nics) = racks.exchange("1", [tcp, tcp]);
    assert!(said.contains("1 connection by reference") && by_nics < BYTES as u64 / 10, "{said} {by_nics}");
    // Whoever has no library, or is in another rack, is sent all by NICs.
    for (to, options) in [("1", [sockets, &[]]), ("1", [&[], sockets]), ("2", [sockets, sockets])] {
        let (said, by_nics) = racks.exchange(to, options);
        assert!(!said.contains("by reference"), "{to} {options:?}: {said}");
        assert!(by_nics > BYTES as u64, "{to} {options:?}: {by_nics}");
    }
    racks.down();
    assert!(!std::path::Path::new(&racks.state).exists());
}

#[test]
fn loopback_connections_of_different_hosts_are_not_one() {
    let Some(racks) = Racks::up("sockets-loopback", &[]) else { return };
    // The same port for who connects, in both: the two connections have the same names.
    for host in ["0", "1"] {
        let script = "echo 40000 40000 > /proc/sys/net/ipv4/ip_local_port_range";
        let output = racks.run(host, &["sh", "-c", script]);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let meet = racks.desk.path("meet");
    std::fs::create_dir(&meet).unwrap();
    let ends = ["0", "1"].map(|host| racks.sockets_role(host, &["--sockets"], "loopback", &meet));
    let outputs = ends.map(|end| end.wait_with_output().unwrap());
    for output in &outputs {
        let said = stdout(output) + &stderr(output);
        assert!(said.contains("all came back"), "{said}");
    }
    let said = outputs.map(|output| stderr(&output)).concat();
    assert!(said.contains(&format!("{} connections by reference", 2 * ROUNDS)), "each in its host: {said}");
}

#[test]
fn without_a_pool_a_host_has_its_own_nic() {
    let torack = "network.topology={kind=\"torack\", racks=2, hosts_per_rack=2}";
    let Some(racks) = Racks::up("torack", &[torack]) else { return };
    let sent = racks.stream(|| {});
    assert!(sent.len() == 1 && sent[0] as usize > BYTES, "{sent:?}");
}

#[test]
fn nothing_is_left_behind() {
    let Some(racks) = Racks::up("down", &["network.mtu=4096B"]) else { return };
    let state = racks.state.as_str();
    let up = ["rack", "up", &example("drack-2x2.toml"), "--state", state];
    assert!(racks.desk.refused(2, &up).contains("already"));
    assert!(racks.desk.refused(2, &["rack", "exec", "4", "--state", state, "--", "true"]).contains("0 to 3"));
    assert_eq!(racks.run("host1", &["sh", "-c", "exit 7"]).status.code(), Some(7));
    let seen = stdout(&racks.run("1", &["cat", "/etc/hosts", "/sys/class/net/nic0/mtu"]));
    assert!(seen.contains("10.1.0.2 host3") && seen.ends_with("4096\n"), "{seen}");
    let mut forgotten = racks.command("1", &["sleep", "600"]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    // As after a crash: the state file is lost.
    std::fs::remove_file(format!("{state}/rack.json")).unwrap();
    assert!(
        racks
            .desk
            .refused(2, &["rack", "exec", "0", "--state", state, "--", "true"])
            .contains("no rack is up")
    );
    assert!(racks.desk.refused(2, &up).contains("take it down first"));
    assert!(racks.down().contains("8 namespaces removed"));
    assert!(!forgotten.wait().unwrap().success());
    assert!(!std::path::Path::new(state).exists());
    assert!(racks.down().contains("nothing was up"));
}

/// Kills `up` at any time: while it makes namespaces, connects them, or shapes links.
#[test]
fn nothing_is_left_of_one_that_was_killed_in_the_middle() {
    let Some(racks) = Racks::up("killed", &[]) else { return };
    racks.down();
    for after in [20, 150, 400] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unrack"));
        command.args(["rack", "up", &example("drack-2x2.toml"), "--state", &racks.state]);
        let mut up = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(after));
        up.kill().unwrap();
        up.wait().unwrap();
        racks.down();
        assert!(!std::path::Path::new(&racks.state).exists(), "killed after {after} ms");
        assert!(racks.down().contains("nothing was up"), "killed after {after} ms");
    }
    let output = racks.desk.unrack(&["rack", "up", &example("drack-2x2.toml"), "--state", &racks.state]);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn what_cannot_be_built_is_refused() {
    let desk = Desk::new("refused");
    let state = desk.path("state");
    let far = [
        "rack",
        "up",
        &example("drack-4x2.toml"),
        "--set",
        "network.link.propagation=1ms",
        "--state",
        &state,
    ];
    assert!(desk.refused(2, &far).contains("only rates are emulated"));
    let star = ["rack", "up", &example("star-edm.toml"), "--state", &state];
    assert!(desk.refused(2, &star).contains("`star` is not emulated"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_unrack"));
    command.args(["rack", "up", &example("drack-2x2.toml"), "--state", &state]);
    command.env("PATH", desk.path("no-programs"));
    let output = command.output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(["iproute2", "sudo", "MPTCP"].iter().any(|word| said.contains(word)), "{said}");
}
