//! `unrack rack` with virtual machines. Where QEMU or a kernel is missing, tests are skipped with a message.

use crate::common::compile;
use crate::copies::WRITES;
use crate::desk;

use desk::{Desk, example, stderr, stdout};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use unrack_testing::{TestRequirement, skip};

/// Task of this program in a host: `read`, or a text to be written to the device.
const TASK: &str = "UNRACK_TEST_MEMORY";
const DEVICE: &str = "/dev/rack-memory";
/// Offsets in the device of what is written there: the first byte, and close to its end.
const OFFSETS: [usize; 2] = [0, BYTES - TEXT];
const TEXT: usize = 16;
const BYTES: usize = 16 << 20;
/// Time in which the kernel ends a process that was killed, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A rack that is taken down at the end of the test.
struct Guests {
    desk: Desk,
    state: String,
    scenario: String,
}

impl Guests {
    /// Boots the example with other settings; `None` if this machine cannot.
    fn up(name: &str, sets: &[&str]) -> Option<Guests> {
        let desk = Desk::new(name);
        let guests = Guests { state: desk.path("state"), scenario: example("two-hosts.toml"), desk };
        let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
        let output = guests.desk.unrack(&[&guests.verb("up", &[&guests.scenario])[..], &sets].concat());
        if output.status.code() == Some(3) {
            skip(TestRequirement::Guests, stderr(&output));
            return None;
        }
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stderr(&output), "", "progress is for terminals");
        Some(guests)
    }

    fn verb<'a>(&'a self, verb: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        [&["rack", verb, "--state", &self.state], more].concat()
    }

    fn done(&self, verb: &str, host: &str) {
        assert_eq!(self.desk.done(&self.verb(verb, &[host])), "");
    }

    fn exec(&self, host: &str, program: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unrack"));
        command.args(self.verb("exec", &[host, "--"])).args(program);
        command
    }

    /// Runs this very program in a host, and returns what it found in the device.
    fn task(&self, host: &str, task: &str) -> String {
        let me = std::env::current_exe().unwrap();
        let program = [me.to_str().unwrap(), "--exact", "guests::a_program_of_a_host", "--nocapture"];
        let output = self.exec(host, &program).env(TASK, task).output().unwrap();
        assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
        stdout(&output)
    }

    fn status(&self) -> Value {
        serde_json::from_str(&self.desk.done(&self.verb("ls", &["--json"]))).unwrap()
    }

    fn states(&self) -> Vec<String> {
        let status = self.status();
        status["hosts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|host| host["state"].as_str().unwrap().into())
            .collect()
    }

    /// Returns the processes of the rack: its own, and those of the hosts.
    fn processes(&self) -> Vec<Pid> {
        let stream =
            std::os::unix::net::UnixStream::connect(Path::new(&self.state).join("guests.sock")).unwrap();
        let own = rustix::net::sockopt::socket_peercred(&stream).unwrap().pid;
        let status = self.status();
        let hosts = status["hosts"].as_array().unwrap().iter();
        let hosts = hosts.filter_map(|host| Pid::from_raw(host["pid"].as_i64()? as i32));
        [own].into_iter().chain(hosts).collect()
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        self.desk.unrack(&self.verb("down", &[]));
    }
}

/// Runs a command with this input.
fn with_input(mut command: Command, input: &[u8]) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // A program that does not read it has ended by itself.
        scope.spawn(move || _ = stdin.write_all(input));
        child.wait_with_output().unwrap()
    })
}

#[test]
#[ignore = "long: make soak runs it"]
fn two_hosts_share_memory_and_fail_by_themselves() {
    let Some(guests) = Guests::up("guests", &["device.bytes=16MiB"]) else { return };
    // Bytes of one kernel are those of the other, at the same places.
    guests.task("a", "written by host a");
    for host in ["b", "1"] {
        assert!(guests.task(host, "read").contains("found written by host|written by host\n"), "{host}");
    }

    // Streams, exit status, environment and folder are carried.
    let input: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
    let output =
        with_input(guests.exec("b", &["sh", "-c", "cat; echo $WORD in $(hostname) >&2; exit 7"]), &input);
    assert_eq!((output.status.code(), output.stdout == input), (Some(7), true));
    let output = guests
        .exec("b", &["sh", "-c", "echo $WORD; pwd; hostname; echo no >&2"])
        .env("WORD", "it's")
        .output();
    let output = output.unwrap();
    let folder = std::env::current_dir().unwrap();
    assert_eq!(
        (stdout(&output), stderr(&output)),
        (format!("it's\n{}\nb\n", folder.display()), "no\n".into())
    );
    assert!(
        guests
            .desk
            .refused(127, &guests.verb("exec", &["a", "--", "no-such-program"]))
            .contains("no-such-program")
    );

    // Several programs at once, one of which does not read, and one that gets a signal.
    let mut idle = guests.exec("b", &["sleep", "1000"]).stdin(Stdio::piped()).spawn().unwrap();
    let script = "trap 'echo caught; exit 5' TERM; echo ready; while :; do sleep 0.1; done";
    let mut trapped = guests.exec("b", &["sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(trapped.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    assert_eq!(stdout(&with_input(guests.exec("b", &["wc", "-c"]), &input)).trim(), "3000000");
    kill_process(Pid::from_child(&trapped), Signal::TERM).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "caught");
    assert_eq!(trapped.wait().unwrap().code(), Some(5));
    // Whoever started a program takes it along.
    idle.kill().unwrap();
    idle.wait().unwrap();
    let begun = Instant::now();
    while guests.exec("b", &["pgrep", "-x", "sleep"]).output().unwrap().status.code() != Some(1) {
        assert!(begun.elapsed() < PATIENCE, "the program goes on");
    }

    // A host stops and goes on.
    guests.done("stop", "a");
    assert_eq!(guests.states(), ["stopped", "up"]);
    assert!(guests.desk.refused(2, &guests.verb("stop", &["a"])).contains("host `a` is stopped, not up"));
    let waiting = guests.exec("a", &["echo", "on"]).stdout(Stdio::piped()).spawn().unwrap();
    guests.task("b", "written by host b");
    guests.done("cont", "a");
    assert_eq!(stdout(&waiting.wait_with_output().unwrap()), "on\n");

    // A host loses power; the memory stays.
    let running = guests.exec("a", &["sleep", "1000"]).stderr(Stdio::piped()).spawn().unwrap();
    guests.done("kill", "a");
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(if stderr(&output).contains("is down") { 2 } else { 1 }));
    assert_eq!(guests.states(), ["down", "up"]);
    assert!(
        guests.desk.refused(2, &guests.verb("exec", &["a", "--", "true"])).contains("`unrack rack boot`")
    );
    assert!(guests.desk.refused(2, &guests.verb("kill", &["c"])).contains("there is no host `c`"));
    guests.done("boot", "a");
    assert!(guests.task("a", "read").contains("found written by host|written by host\n"));

    // Nothing is left behind.
    assert!(guests.desk.refused(2, &guests.verb("up", &[&guests.scenario])).contains("already"));
    assert!(guests.desk.refused(2, &guests.verb("up", &[&example("torus-4x4.toml")])).contains("already"));
    let processes = guests.processes();
    assert_eq!(processes.len(), 3);
    let output = guests.desk.unrack(&guests.verb("down", &[]));
    assert!(output.status.success() && stderr(&output).contains("the rack is down"), "{}", stderr(&output));
    assert!(!Path::new(&guests.state).exists());
    processes.into_iter().for_each(wait_for_end);
}

#[test]
fn a_device_on_the_bus_and_a_rack_whose_process_is_killed() {
    let sets =
        ["device={kind=\"ivshmem\", bytes=\"16MiB\"}", "host=[{name=\"alone\", memory=\"512MiB\", cpus=2}]"];
    let Some(guests) = Guests::up("guests-ivshmem", &sets) else { return };
    let output = guests.exec("alone", &["nproc"]).output().unwrap();
    assert_eq!(stdout(&output), "2\n", "{}", stderr(&output));
    guests.task("alone", "written by a host");
    let device = &guests.status()["device"];
    assert_eq!((device["kind"].as_str(), device["bytes"].as_u64()), (Some("ivshmem"), Some(BYTES as u64)));
    // Processes of this machine reach the same memory.
    let file = std::fs::File::open(device["file"].as_str().unwrap()).unwrap();
    let mut text = [0; TEXT];
    file.read_exact_at(&mut text, device["file_offset"].as_u64().unwrap() + OFFSETS[1] as u64).unwrap();
    assert_eq!(&text, b"written by a hos");

    let processes = guests.processes();
    kill_process(processes[0], Signal::KILL).unwrap();
    wait_for_end(processes[0]);
    let output = guests.desk.unrack(&guests.verb("down", &[]));
    assert!(stderr(&output).contains("had ended already"), "{}", stderr(&output));
    assert!(output.status.success() && !Path::new(&guests.state).exists());
    processes.into_iter().for_each(wait_for_end);
}

/// The kernel of the guest may be older than that of this machine. Where it is older than Linux 6.8, pages are copied there without a word.
#[test]
#[ignore = "long: make soak runs it"]
fn a_program_of_a_guest_has_remote_memory_whatever_the_kernel_is() {
    let sets = ["host=[{name=\"alone\", memory=\"1GiB\", cpus=2}]", "device.bytes=2MiB"];
    let Some(guests) = Guests::up("guests-pages", &sets) else { return };
    let release = stdout(&guests.exec("alone", &["uname", "-r"]).output().unwrap());
    let doctor =
        stdout(&guests.exec("alone", &[env!("CARGO_BIN_EXE_unrack"), "doctor", "run"]).output().unwrap());
    let mut parts = release.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    let is_old = (parts.next(), parts.next()) < (Some(6), Some(8));
    assert_eq!(doctor.contains("cannot move pages"), is_old, "{release}: {doctor}");
    for (name, options) in [("dynamic", &[][..]), ("static", &["-static"])] {
        let program = guests.desk.path(name);
        compile(WRITES, Path::new(&program), &[&["-O1", "-pthread"], options].concat());
        let json = guests.desk.path("run.json");
        let run =
            [env!("CARGO_BIN_EXE_unrack"), "run", "--json", &json, "--local", "2MiB", "--", &program, "2000"];
        let output = guests.exec("alone", &run).output().unwrap();
        assert_eq!(stdout(&output), "whole\n", "{release}, {name}: {}", stderr(&output));
    }
}

#[test]
fn an_interrupted_up_leaves_nothing() {
    if unrack_guests::check_machine().is_err() {
        return skip(TestRequirement::Guests, "QEMU, busybox or a kernel is not installed");
    }
    let desk = Desk::new("guests-interrupted");
    let (state, scenario) = (desk.path("state"), example("two-hosts.toml"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_unrack"));
    command.args(["rack", "up", &scenario, "--state", &state, "--set", "host=[{name=\"a\"}]"]);
    let mut up = command.spawn().unwrap();
    let begun = Instant::now();
    while !Path::new(&state).join("a.console").exists() {
        assert!(begun.elapsed() < PATIENCE, "no host boots");
        std::thread::sleep(Duration::from_millis(10));
    }
    up.kill().unwrap();
    up.wait().unwrap();
    while Path::new(&state).exists() {
        assert!(begun.elapsed() < 5 * PATIENCE, "the rack stays");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Stands in for QEMU on a machine whose KVM passes every trial and then runs no kernel.
const STANDS_STILL: &str = r#"#!/bin/sh
case "$*" in
*isa-debug-exit*) exit 85 ;;
*"-accel kvm"*) exec sleep 1000 ;;
esac
exec "$REAL" "$@"
"#;

#[test]
#[ignore = "long: make soak runs it"]
fn a_guest_that_stands_still_under_kvm_is_emulated() {
    if unrack_guests::check_machine().is_err() {
        return skip(TestRequirement::Guests, "QEMU, busybox or a kernel is not installed");
    }
    let path = std::env::var("PATH").unwrap();
    let real = std::env::split_paths(&path).map(|folder| folder.join("qemu-system-x86_64"));
    let real = real.into_iter().find(|path| path.is_file()).unwrap();
    let desk = Desk::new("guests-silent");
    let (text, program) = (desk.file("text", STANDS_STILL), desk.path("qemu-system-x86_64"));
    // A file that this process had open for writing might be busy in a child of another test.
    assert!(Command::new("install").args(["-m", "755", &text, &program]).status().unwrap().success());
    let folder = Path::new(&program).parent().unwrap().display();
    let (state, scenario) = (desk.path("state"), example("two-hosts.toml"));
    let up = Command::new(env!("CARGO_BIN_EXE_unrack"))
        .args(["rack", "up", &scenario, "--state", &state, "--set", "host=[{name=\"a\"}]"])
        .env("PATH", format!("{folder}:{path}"))
        .env("REAL", real)
        .output()
        .unwrap();
    let guests = Guests { desk, state, scenario };
    assert!(up.status.success(), "{}", stderr(&up));
    assert!(stderr(&up).contains("host `a` printed nothing for 20 s under KVM"), "{}", stderr(&up));
    assert_eq!(guests.status()["accelerator"], "tcg");
    // A host that is booted later is emulated from the start.
    guests.done("kill", "a");
    guests.done("boot", "a");
    assert_eq!(stdout(&guests.exec("a", &["hostname"]).output().unwrap()), "a\n");
}

#[test]
fn a_wrong_scenario_and_a_rack_that_is_not_up_are_refused() {
    let desk = Desk::new("guests-refused");
    let scenario = desk.file("rack.toml", "[device]\nbites = \"2MiB\"\n[[host]]\nname = \"a\"\n");
    let said = desk.refused(2, &["rack", "up", &scenario, "--state", &desk.path("state")]);
    assert!(
        said.contains("device has no key `bites`; did you mean `bytes`?") && said.contains("rack.toml:2:1"),
        "{said}"
    );
    for verb in ["ls", "kill", "boot"] {
        let host: &[&str] = if verb == "ls" { &[] } else { &["a"] };
        let state = desk.path("state");
        let said = desk.refused(2, &[&["rack", verb, "--state", &state], host].concat());
        assert!(said.contains("no virtual machines are up"), "{said}");
    }
    assert!(!Path::new(&desk.path("state")).exists());
}

/// Waits until a process has ended. Its parent, which may not be this one, waits for it in its own time.
fn wait_for_end(process: Pid) {
    let begun = Instant::now();
    let stat = format!("/proc/{}/stat", process.as_raw_nonzero());
    let is_zombie = || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") Z "));
    while test_kill_process(process).is_ok() && !is_zombie() {
        assert!(begun.elapsed() < PATIENCE, "process {process:?} goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Role of this program in a host; does nothing otherwise.
#[test]
fn a_program_of_a_host() {
    let Ok(task) = std::env::var(TASK) else { return };
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    let file = std::fs::File::options().read(true).write(true).open(DEVICE).unwrap();
    // SAFETY: a new mapping takes no memory that anything else has.
    let start = unsafe {
        mmap(std::ptr::null_mut(), BYTES, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)
    };
    let start = start.unwrap().cast::<u8>();
    let found = OFFSETS.map(|offset| {
        let at = start.wrapping_add(offset).cast::<[u8; TEXT]>();
        if task == "read" {
            // SAFETY: the place is in the mapping, and nobody writes to it meanwhile.
            String::from_utf8(unsafe { at.read_volatile() }.to_vec()).unwrap()
        } else {
            let text = <[u8; TEXT]>::try_from(&task.as_bytes()[..TEXT]).unwrap();
            // SAFETY: the place is in the mapping, and no other program of this test has it at this time.
            unsafe { at.write_volatile(text) };
            task.clone()
        }
    });
    println!("found {}", found.join("|").replace(" |", "|").trim_end());
}
