//! `unrack pool`: what people see of it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use unrack_pool::wire::Access;
use unrack_pool::{Client, Error};

const PATIENCE: Duration = Duration::from_secs(20);

fn unrack() -> Command {
    Command::new(env!("CARGO_BIN_EXE_unrack"))
}

struct Served(Child);

impl Served {
    /// A pool that can be connected to, and what it says of itself.
    fn new(socket: &Path, more: &[&str]) -> (Served, serde_json::Value) {
        let mut command = unrack();
        command.args(["pool", "serve", "--json", "--capacity", "64MiB", "--socket"]).arg(socket).args(more);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (Served(child), serde_json::from_str(&line).expect("one JSON object"))
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder that is gone with its owner.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("unrack-cli-pool-{name}-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn ls(socket: &Path, more: &[&str]) -> Output {
    unrack().args(["pool", "ls", "--socket"]).arg(socket).args(more).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn serves_lists_and_starts_again_after_kill() {
    let folder = Folder::new("serve");
    let socket = folder.0.join("pool.sock");
    let (first, status) = Served::new(&socket, &["--memory", "incoherent"]);
    assert_eq!(
        (status["capacity_bytes"].as_u64(), status["mode"].as_str()),
        (Some(64 << 20), Some("incoherent"))
    );

    let (server, client) = (Client::connect_as(&socket, "a server"), Client::connect_as(&socket, "a client"));
    let (server, client) = (server.unwrap(), client.unwrap());
    let service = server.register("kv").unwrap();
    let (near, far) = std::thread::scope(|scope| {
        let far = scope.spawn(|| service.accept(PATIENCE).unwrap().unwrap().accept(b"", 0, &[]).unwrap());
        (client.open("kv", b"", 0, &[], PATIENCE).unwrap().0, far.join().unwrap())
    });
    let arena = client.arena();
    arena.share_with(&near, Access::Read).unwrap();
    let buffer = arena.alloc(1000).unwrap();

    let shown = text(&ls(&socket, &[]).stdout);
    let lines: Vec<Vec<&str>> = shown.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(shown.starts_with("64MiB, 60MiB free; memfd, incoherent\n"), "{shown}");
    let pid = std::process::id().to_string();
    assert!(
        lines.iter().any(|line| line[..3.min(line.len())] == ["a", "client", &pid] && line[4] == "2MiB"),
        "{shown}"
    );
    assert!(shown.contains("\nkv "), "{shown}");

    let start = Instant::now();
    // A process that has no time to answer at once is listed as it was.
    let json = loop {
        let json: serde_json::Value = serde_json::from_slice(&ls(&socket, &["--json"]).stdout).unwrap();
        if json["processes"][1]["used_bytes"] == 1024 || start.elapsed() > PATIENCE {
            break json;
        }
    };
    assert_eq!(json["free_bytes"], 60 << 20);
    assert_eq!(json["processes"][1]["used_bytes"], 1024);
    assert_eq!(json["segments"].as_array().unwrap().len(), 1);
    assert_eq!(json["channels"][0]["open"], true);

    first.kill();
    let refused = ls(&socket, &[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("unrack pool serve --socket"), "{}", text(&refused.stderr));

    let (second, _) = Served::new(&socket, &["--memory", "incoherent"]);
    let start = Instant::now();
    while client.list().is_err() || server.list().is_err() {
        assert!(start.elapsed() < PATIENCE);
    }
    assert!(far.resolve(buffer.offset(), 1000, Access::Read).is_some());
    arena.free(buffer);
    drop((service, near, far, arena, client, server));

    // Ended by a signal, it leaves nothing.
    let mut second = second;
    let pid = rustix::process::Pid::from_raw(second.0.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(second.0.wait().unwrap().success());
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
}

#[test]
fn says_what_is_wrong() {
    let folder = Folder::new("wrong");
    let socket = folder.0.join("pool.sock");
    let serve = |more: &[&str]| {
        let output = unrack().args(["pool", "serve", "--socket"]).arg(&socket).args(more).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    for (more, status, what) in [
        (&["--capacity", "3MB"][..], 2, "whole number of 2 MiB sections"),
        (&["--capacity", "lots"], 2, "--capacity"),
        (&["--queue", "100B"], 2, "whole pages"),
        (&["--region", "0"], 2, "at least one section"),
        (&["--backing", "tape"], 2, "a path"),
        (&["--backing", "/nonexistent/x"], 3, "make it first"),
        (&["--backing", "/dev/null,/dev/zero", "--interleave", "100B"], 2, "power of two"),
        (&["--backing", "/dev/null"], 1, "device-DAX"),
        (&["--memory", "fast"], 2, "coherent"),
        (&["--permissions", "9"], 2, "octal"),
    ] {
        let (code, stderr) = serve(more);
        assert_eq!(code, Some(status), "{more:?}: {stderr}");
        assert!(stderr.contains(what), "{more:?}: {stderr}");
    }
    let (_served, _) = Served::new(&socket, &[]);
    let (code, stderr) = serve(&[]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("another manager"), "{stderr}");
}

/// Programs that need a pool start one; it serves all of them and ends with the last.
#[test]
fn starts_on_demand() {
    let folder = Folder::new("demand");
    let socket = folder.0.join("pool.sock");
    let unrack = env!("CARGO_BIN_EXE_unrack");
    let clients: Vec<Client> = std::thread::scope(|scope| {
        let starting: Vec<_> =
            (0..4).map(|_| scope.spawn(|| Client::connect_or_start(&socket, unrack))).collect();
        starting.into_iter().map(|client| client.join().unwrap().expect("somebody serves")).collect()
    });
    assert_eq!(clients[0].list().unwrap().len(), 1 + clients.len(), "one manager for all");
    let pool = clients[0].arena();
    pool.free(pool.alloc(100).unwrap());
    let other = Client::connect_or_start(folder.0.join("other.sock"), "/nonexistent/unrack").map(drop);
    assert!(matches!(other, Err(Error::Start { .. })));
    // It would end by itself, but later than this test.
    let servers = || -> Vec<i32> {
        let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap());
        let serving = processes.filter_map(|process| {
            let command = std::fs::read(process.path().join("cmdline")).ok()?;
            let serves = String::from_utf8_lossy(&command).contains(socket.to_str().unwrap());
            process.file_name().to_str()?.parse().ok().filter(|_| serves)
        });
        serving.collect()
    };
    let start = Instant::now();
    while servers().len() > 1 {
        assert!(start.elapsed() < PATIENCE, "the others end when they see that somebody serves");
        std::thread::sleep(Duration::from_millis(5));
    }
    let servers = servers();
    let pid = rustix::process::Pid::from_raw(servers[0]).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}
