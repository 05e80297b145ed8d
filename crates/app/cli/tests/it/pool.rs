//! `unrack pool`: its visible behaviour.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use unrack_pool::cache_control::Incoherent;
use unrack_pool::wire::Access;
use unrack_pool::{Client, Error};
use unrack_testing::{TestFolder, TestRequirement, skip};

const PATIENCE: Duration = Duration::from_secs(60);

fn unrack() -> Command {
    Command::new(env!("CARGO_BIN_EXE_unrack"))
}

struct Served(Child);

impl Served {
    /// Starts a pool, and returns it with its status line once it takes connections.
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

fn ls(socket: &Path, more: &[&str]) -> Output {
    unrack().args(["pool", "ls", "--socket"]).arg(socket).args(more).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn serves_lists_and_starts_again_after_kill() {
    if let Err(why) = Incoherent::detect() {
        return skip(TestRequirement::Flush, why);
    }
    let folder = TestFolder::new("serve");
    let socket = folder.join("pool.sock");
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
    assert!(shown.starts_with("64MiB, 60MiB free; at most 32MiB a client; memfd, incoherent\n"), "{shown}");
    let pid = std::process::id().to_string();
    assert!(
        lines.iter().any(|line| line[..3.min(line.len())] == ["a", "client", &pid] && line[4] == "2MiB"),
        "{shown}"
    );
    assert!(shown.contains("\nkv "), "{shown}");

    let start = Instant::now();
    // A process that has no time to answer at once is listed with its last report.
    let json = loop {
        let json: serde_json::Value = serde_json::from_slice(&ls(&socket, &["--json"]).stdout).unwrap();
        if json["processes"][1]["used_bytes"] == 1024 || start.elapsed() > PATIENCE {
            break json;
        }
    };
    assert_eq!(json["free_bytes"], 60 << 20);
    assert_eq!(json["processes"][1]["used_bytes"], 1024);
    assert_eq!(json["segments"].as_array().unwrap().len(), 1);
    assert_eq!(json["per_client_bytes"], 32 << 20);
    // A section and a queue area, of both connections of this process.
    assert_eq!(json["processes"][0]["quota_used_bytes"], (2 << 20) + (64 << 10));
    assert_eq!(json["processes"][1]["quota_used_bytes"], (2 << 20) + (64 << 10));
    assert!(lines.iter().any(|line| line.last() == Some(&"6%")), "{shown}");
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
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

#[test]
fn says_what_is_wrong() {
    let folder = TestFolder::new("wrong");
    let socket = folder.join("pool.sock");
    let absent = folder.join("absent/x").display().to_string();
    let serve = |more: &[&str]| {
        let output = unrack().args(["pool", "serve", "--socket"]).arg(&socket).args(more).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    for (more, status, what) in [
        (&["--capacity", "3MB"][..], 2, "whole number of 2 MiB sections; did you mean `4MiB`?"),
        (&["--capacity", "64MB"], 2, "did you mean `64MiB`?"),
        (&["--queue", "64kB"], 2, "did you mean `64KiB`?"),
        (&["--backing", "memfdd"], 2, "did you mean `memfd`?"),
        (&["--capacity", "lots"], 2, "--capacity"),
        (&["--capacity", "1B"], 2, "whole number of 2 MiB sections"),
        (&["--capacity", "17EiB"], 2, "--capacity"),
        (&["--capacity", "100TiB"], 3, "give less"),
        (&["--capacity", "18446744073707454464B"], 2, "whole number of 2 MiB sections"),
        (&["--per-client", "1MiB"], 2, "give at least 4MiB"),
        (&["--per-client", "101%"], 2, "--per-client"),
        (&["--backing", "/etc"], 2, "others can use it"),
        (&["--backing", "huge", "--permissions", "660"], 2, "--permissions 600"),
        (&["--backing", "/dev/shm/x", "--permissions", "666"], 2, "--permissions 600"),
        (&["--queue", "100B"], 2, "whole pages"),
        (&["--region", "0"], 2, "a region of 0 sections"),
        (&["--backing", "tape"], 2, "a path"),
        (&["--backing", &absent], 3, "make it first"),
        (&["--backing", "/dev/null,/dev/zero", "--interleave", "100B"], 2, "power of two"),
        (&["--backing", "/dev/null"], 1, "device-DAX"),
        (&["--memory", "fast"], 2, "coherent"),
        (&["--permissions", "9"], 2, "octal"),
    ] {
        let (code, stderr) = serve(more);
        assert_eq!(code, Some(status), "{more:?}: {stderr}");
        assert!(stderr.contains(what), "{more:?}: {stderr}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "{more:?} leaves something");
    }
    let (_served, _) = Served::new(&socket, &[]);
    let (code, stderr) = serve(&[]);
    assert_eq!(code, Some(1));
    assert!(stderr.contains("another manager"), "{stderr}");
}

#[test]
fn a_place_that_cannot_be_written_is_what_the_machine_lacks() {
    let folder = TestFolder::new("place");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(folder.join("file"), b"").unwrap();
    let long = folder.join("x".repeat(120));
    let mut cases = vec![
        (folder.join("missing/pool.sock"), 3, "give --socket in a folder that you may write to", None),
        (PathBuf::from("/proc/pool.sock"), 3, "give --socket in a folder that you may write to", None),
        (folder.join("file/pool.sock"), 3, "give --socket in a folder that you may write to", None),
        (long, 2, "cannot listen", None),
    ];
    if rustix::process::geteuid().is_root() {
        let stranger = Some(65534);
        cases.push((
            folder.join("pool.sock"),
            3,
            "give --socket in a folder that you may write to",
            stranger,
        ));
    }
    for (socket, status, what, user) in cases {
        let mut command = unrack();
        command.args(["pool", "serve", "--capacity", "4MiB", "--socket"]).arg(&socket);
        if let Some(user) = user {
            command.uid(user);
        }
        let output = command.output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{}: {stderr}", socket.display());
        assert!(stderr.contains(what), "{}: {stderr}", socket.display());
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "{} leaves something", socket.display());
    }
}

/// The folder of the default socket, too, exists only while a pool is served.
#[test]
fn a_pool_that_does_not_start_leaves_no_folder() {
    let folder = TestFolder::new("default");
    let mut command = unrack();
    command.args(["pool", "serve", "--capacity", "100TiB"]).env("XDG_RUNTIME_DIR", &folder);
    assert_eq!(command.output().unwrap().status.code(), Some(3));
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
}

/// Programs that need a pool start one; it serves all of them and ends with the last.
#[test]
fn starts_on_demand() {
    let folder = TestFolder::new("demand");
    let socket = folder.join("pool.sock");
    let unrack = env!("CARGO_BIN_EXE_unrack");
    let clients: Vec<Client> = std::thread::scope(|scope| {
        let starting: Vec<_> =
            (0..4).map(|_| scope.spawn(|| Client::connect_or_start(&socket, unrack))).collect();
        starting.into_iter().map(|client| client.join().unwrap().expect("somebody serves")).collect()
    });
    assert_eq!(clients[0].list().unwrap().len(), 1 + clients.len(), "one manager for all");
    let pool = clients[0].arena();
    pool.free(pool.alloc(100).unwrap());
    let other = Client::connect_or_start(folder.join("other.sock"), folder.join("no-such-program")).map(drop);
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

/// A manager of one host of a device, in its own process.
fn serve_host(folder: &TestFolder, host: u32, more: &[&str]) -> (Served, serde_json::Value) {
    let device = folder.join("device");
    let mut command = unrack();
    command.args(["pool", "serve", "--json", "--device"]).arg(device).args(["--host", &host.to_string()]);
    command.args(["--host-name", &format!("host{host}"), "--socket"]).arg(folder.join(format!("pool{host}")));
    let mut child = command.args(more).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (Served(child), serde_json::from_str(&line).expect("one JSON object"))
}

/// Runs a command with a path in place of `{}`.
fn run(words: &[&str], path: &Path) -> Output {
    let path = path.to_str().expect("tests have plain paths");
    unrack().args(words.iter().map(|word| if *word == "{}" { path } else { word })).output().unwrap()
}

#[test]
fn hosts_share_a_device_that_was_formatted_for_them() {
    let folder = TestFolder::in_memory("hosts");
    let device = folder.join("device");
    std::fs::File::create(&device).and_then(|file| file.set_len(64 << 20)).unwrap();
    let unformatted = run(&["pool", "serve", "--host", "0", "--device", "{}"], &device);
    assert_eq!(unformatted.status.code(), Some(1));
    assert!(text(&unformatted.stderr).contains("unrack pool format"), "{}", text(&unformatted.stderr));
    for (more, says) in [("--hosts=0", "1 to 16"), ("--hosts=17", "1 to 16"), ("--queue=3KiB", "4KiB")] {
        let refused = run(&["pool", "format", more, "{}"], &device);
        assert_eq!(refused.status.code(), Some(2), "{more}");
        assert!(text(&refused.stderr).contains(says), "{}", text(&refused.stderr));
    }
    let made = run(&["pool", "format", "--json", "--hosts", "2", "--memory", "coherent", "{}"], &device);
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).expect("one JSON object");
    assert_eq!((made["hosts"].as_u64(), made["bytes"].as_u64()), (Some(2), Some(64 << 20)));

    let (_first, status) = serve_host(&folder, 0, &[]);
    assert_eq!(status["capacity_bytes"].as_u64(), Some(64 << 20));
    let (second, _) = serve_host(&folder, 1, &["--silence", "300ms"]);
    let sockets = [0, 1].map(|host| folder.join(format!("pool{host}")));
    let listed = |host: usize| -> serde_json::Value {
        serde_json::from_slice(&ls(&sockets[host], &["--json"]).stdout).expect("one JSON object")
    };
    let until = |host: usize, standing: &str| {
        let start = Instant::now();
        loop {
            let hosts = listed(host)["hosts"].clone();
            let other = hosts.as_array().into_iter().flatten().find(|one| one["is_here"] == false).cloned();
            if other.as_ref().is_some_and(|other| other["standing"] == standing) {
                return other.expect("it is there");
            }
            assert!(start.elapsed() < PATIENCE, "{standing}: {hosts}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    assert_eq!(until(0, "serving")["name"], "host1");
    until(1, "serving");
    assert!(text(&ls(&sockets[0], &[]).stdout).contains("host1"));

    // Neither a third host, nor the same twice, nor another format while hosts serve.
    let third = run(&["pool", "serve", "--host", "2", "--device", "{}"], &device);
    assert_eq!(third.status.code(), Some(2), "{}", text(&third.stderr));
    let twice = run(&["pool", "serve", "--host", "1", "--socket", "/dev/null/x", "--device", "{}"], &device);
    assert_ne!(twice.status.code(), Some(0));
    let wakeup = run(&["pool", "serve", "--host", "1", "--device", "{}", "--doorbell", "/dev/null"], &device);
    assert_eq!(wakeup.status.code(), Some(2));
    assert!(text(&wakeup.stderr).contains("--doorbell /dev/null: it is no folder of an ivshmem device"));
    let again = run(&["pool", "format", "{}"], &device);
    assert!(text(&again.stderr).contains("serves them"), "{}", text(&again.stderr));

    let fence = |host: &str| run(&["pool", "fence", host, "--socket", "{}"], &sockets[0]);
    let refused = fence("1");
    assert_eq!(refused.status.code(), Some(1), "its heartbeat moves");
    assert!(text(&refused.stderr).contains("give --force"), "{}", text(&refused.stderr));
    second.kill();
    until(0, "silent");
    assert_eq!(fence("0").status.code(), Some(1), "a host does not fence itself");
    assert_eq!(fence("7").status.code(), Some(1));
    assert!(fence("1").status.success());
    until(0, "ended");
    let (_next, _) = serve_host(&folder, 1, &[]);
    until(0, "serving");
}

#[test]
fn every_byte_between_hosts_is_checked() {
    let folder = TestFolder::in_memory("check");
    let device = folder.join("device");
    std::fs::File::create(&device).and_then(|file| file.set_len(128 << 20)).unwrap();
    for memory in ["coherent", "model"] {
        assert!(run(&["pool", "format", "--force", "--memory", memory, "{}"], &device).status.success());
        let _hosts = [0, 1].map(|host| serve_host(&folder, host, &[]).0);
        let sockets = [0, 1].map(|host| folder.join(format!("pool{host}")));
        let mut bench = unrack();
        bench.args(["rpc", "bench", "--waiting", "adaptive", "--serve"]).arg(&sockets[0]);
        let _bench = Served(bench.spawn().expect("it starts"));
        let start = Instant::now();
        let checked = loop {
            let check = ["rpc", "check", "--calls", "60", "--streams", "6", "--json", "--pool", "{}"];
            let checked = run(&check, &sockets[1]);
            if checked.status.success() {
                break serde_json::from_slice::<serde_json::Value>(&checked.stdout).expect("one JSON object");
            }
            assert!(start.elapsed() < PATIENCE, "{}", text(&checked.stderr));
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!([&checked["calls"], &checked["streams"]].map(|one| one.as_u64()), [Some(60), Some(6)]);
    }
    let nowhere = run(&["rpc", "check", "--pool", "{}"], &folder.join("absent"));
    assert_eq!(nowhere.status.code(), Some(1));
    assert!(text(&nowhere.stderr).contains("no manager"), "{}", text(&nowhere.stderr));
}
