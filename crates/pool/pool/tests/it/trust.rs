//! Default places: another user may have made the folder first, and serve there.

use crate::common::folder::Folder;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use unrack_pool::{Client, Manager, Options, socket};
use unrack_testing::{TestRequirement, skip};
use unrack_units::Bytes;

const NOBODY: u32 = 65534;

/// Roles of this program if a test started it: a user's program that connects to the default place, and another user's manager at
/// the socket that it is told.
#[test]
fn role() {
    match std::env::var("UNRACK_POOL_ROLE").as_deref() {
        Ok("connects") => {
            let connected = Client::connect_as(socket::default_socket(), "trusting");
            println!("\n{}", connected.map_or_else(|error| error.to_string(), |_| "connected".into()));
        }
        Ok(path) => {
            let mut options = Options::new(path, Bytes::new(64 << 20));
            options.permissions = 0o666;
            let _manager = Manager::start(&options).unwrap();
            println!("\nserves");
            let _ = std::io::stdin().lock().lines().next();
        }
        Err(_) => {}
    }
}

fn command(temporary: &Path, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "trust::role", "--nocapture"]).env("UNRACK_POOL_ROLE", role);
    command.env("TMPDIR", temporary).env_remove("XDG_RUNTIME_DIR");
    command
}

/// Returns what a program of this user says that connects to its default place.
fn connects(temporary: &Path) -> String {
    let output = command(temporary, "connects").output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Makes the default folder below a folder of temporary files, which is open to all as `/tmp` is.
fn default_folder(folder: &Folder) -> std::path::PathBuf {
    set_mode(&folder.path(""), 0o1777);
    let own = folder.path(&format!("unrack-{}", rustix::process::getuid().as_raw()));
    std::fs::create_dir(&own).unwrap();
    set_mode(&own, 0o700);
    own
}

#[test]
fn a_default_folder_that_others_can_write_or_replace_is_not_used() {
    let folder = Folder::new();
    let own = default_folder(&folder);
    let _manager = Manager::start(&Options::new(own.join("pool.sock"), Bytes::new(64 << 20))).unwrap();
    assert!(connects(&folder.path("")).contains("connected"), "{}", connects(&folder.path("")));
    set_mode(&own, 0o777);
    assert!(connects(&folder.path("")).contains("not a folder of this user alone"));
    set_mode(&own, 0o700);
    // Without the sticky bit, others can put another folder in its place.
    set_mode(&folder.path(""), 0o777);
    assert!(connects(&folder.path("")).contains("can be written by other users"));
    set_mode(&folder.path(""), 0o1777);
    // A link leads to another folder, whoever owns that.
    let real = folder.path("real");
    std::fs::rename(&own, &real).unwrap();
    std::os::unix::fs::symlink(&real, &own).unwrap();
    assert!(connects(&folder.path("")).contains("is no folder"));
}

#[test]
fn another_users_manager_at_the_default_place_gets_nothing() {
    if !rustix::process::geteuid().is_root() {
        return skip(TestRequirement::Root, "needs root, to serve as another user");
    }
    let folder = Folder::new();
    let own = default_folder(&folder);
    std::os::unix::fs::chown(&own, Some(NOBODY), Some(NOBODY)).unwrap();
    set_mode(&own, 0o755);
    let path = own.join("pool.sock");
    let mut serving: Child = command(&folder.path(""), path.to_str().unwrap())
        .uid(NOBODY)
        .gid(NOBODY)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(serving.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "serves"));
    let said = connects(&folder.path(""));
    assert!(said.contains("belongs to user 65534"), "{said}");
    // The folder is this user's again, and the socket is still the other's.
    std::os::unix::fs::chown(&own, Some(0), Some(0)).unwrap();
    set_mode(&own, 0o700);
    let said = connects(&folder.path(""));
    assert!(said.contains("is served by user 65534"), "{said}");
    serving.kill().unwrap();
    serving.wait().unwrap();
}
