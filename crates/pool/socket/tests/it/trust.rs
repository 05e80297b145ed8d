//! The default place of the broker: another user may have made its folder first, and would be passed sockets.

use crate::common::library;
use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use unrack_testing::{TestFolder, TestRequirement, skip};

const NOBODY: u32 = 65534;

/// Talks over a connection, often enough for both its ends to ask a broker.
#[test]
#[ignore = "runs below the library"]
fn talks() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    for _ in 0..4 {
        let mut came = [0; 6];
        near.write_all(b"secret").unwrap();
        far.read_exact(&mut came).unwrap();
        far.write_all(&came).unwrap();
        near.read_exact(&mut came).unwrap();
        assert_eq!(&came, b"secret");
    }
}

/// Listens where another user's broker would be, and says whether anything came with the first connection.
#[test]
#[ignore = "a role of another test"]
fn squats() {
    let listener = listen(Path::new(&std::env::var("UNRACK_SQUATS").unwrap()));
    println!("\nlistens");
    println!("\n{}", if is_passed_anything(&listener) { "something came" } else { "nothing came" });
}

fn listen(path: &Path) -> OwnedFd {
    let kind = SocketType::SEQPACKET;
    let listener = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    rustix::net::bind(&listener, &SocketAddrUnix::new(path).unwrap()).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    rustix::net::listen(&listener, 8).unwrap();
    listener
}

/// Waits for a connection, and returns whether anything comes by it before its end.
fn is_passed_anything(listener: &OwnedFd) -> bool {
    let connection = rustix::net::accept(listener).unwrap();
    let (count, _) = rustix::net::recv(&connection, &mut [0; 64], RecvFlags::empty()).unwrap();
    count > 0
}

/// Runs a program below the library whose folder of temporary files is `temporary`. Returns what it says on stderr.
fn talk(temporary: &Path) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "trust::talks", "--ignored", "--test-threads=1"]);
    command.env("LD_PRELOAD", library()).env("TMPDIR", temporary).env_remove("XDG_RUNTIME_DIR");
    command.env_remove(unrack_socket::SOCKET_VARIABLE).env(unrack_socket::AFTER_VARIABLE, "1");
    let output = command.stdout(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn default_folder(folder: &TestFolder) -> PathBuf {
    set_mode(folder, 0o1777);
    let own = folder.join(format!("unrack-{}", rustix::process::getuid().as_raw()));
    std::fs::create_dir(&own).unwrap();
    set_mode(&own, 0o700);
    own
}

#[test]
fn a_default_folder_that_others_can_write_gets_no_sockets() {
    let folder = TestFolder::new("trust");
    let own = default_folder(&folder);
    let listener = listen(&own.join("sockets.sock"));
    std::thread::scope(|scope| {
        let passed = scope.spawn(|| is_passed_anything(&listener));
        assert_eq!(talk(&folder), "");
        assert!(passed.join().unwrap(), "this user's own folder is used");
    });
    rustix::io::ioctl_fionbio(&listener, true).unwrap();
    while rustix::net::accept(&listener).is_ok() {}
    set_mode(&own, 0o777);
    let said = talk(&folder);
    assert!(
        said.contains("no connection is carried") && said.contains("not a folder of this user alone"),
        "{said}"
    );
    assert!(rustix::net::accept(&listener).is_err(), "nobody connected");
}

#[test]
fn another_users_broker_gets_no_sockets() {
    if !rustix::process::geteuid().is_root() {
        return skip(TestRequirement::Root, "needs root, to listen as another user");
    }
    let folder = TestFolder::new("trust-peer");
    let own = default_folder(&folder);
    std::os::unix::fs::chown(&own, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "trust::squats", "--ignored", "--nocapture"]).uid(NOBODY).gid(NOBODY);
    command.env("UNRACK_SQUATS", own.join("sockets.sock")).stdout(Stdio::piped());
    let mut squatting = command.spawn().unwrap();
    let mut lines = BufReader::new(squatting.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "listens"));
    let said = talk(&folder);
    assert!(said.contains("belongs to user 65534"), "{said}");
    // Whoever owned the folder when the program looked: who listens is asked again.
    std::os::unix::fs::chown(&own, Some(0), Some(0)).unwrap();
    assert_eq!(talk(&folder), "");
    assert!(lines.any(|line| line.ends_with("nothing came")), "a socket was passed");
    let _ = squatting.wait();
}
