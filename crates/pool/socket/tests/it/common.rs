//! A broker with a pool, and children of this test program that preload the library.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use unrack_pool::{Client, Manager, Options};
use unrack_socket::broker::{Broker, BrokerCounts};
use unrack_testing::TestFolder;

/// Broker in a thread of this process.
pub(crate) struct Rack {
    folder: TestFolder,
    pub(crate) counts: Arc<BrokerCounts>,
    pub(crate) pool: Client,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _manager: Manager,
}

impl Rack {
    /// Starts a broker with room for some connections.
    pub(crate) fn new(name: &str, connections: u64) -> Rack {
        let folder = TestFolder::new(name);
        let capacity = unrack_units::Bytes::new(connections * unrack_socket::AREA_BYTES as u64);
        let mut options = Options::new(folder.join("pool.sock"), capacity);
        options.per_client = Some("100%".parse().expect("a share"));
        let manager = Manager::start(&options).expect("a pool");
        let client = Client::connect_as(manager.socket(), "sockets").expect("a client");
        let pool = Client::connect_as(manager.socket(), "test").expect("a client");
        let broker = Broker::listen(&folder.join("sockets.sock"), client).expect("a broker");
        let (counts, stop) = (broker.counts(), Arc::new(AtomicBool::new(false)));
        let thread = std::thread::spawn({
            let stop = stop.clone();
            move || broker.run(&stop)
        });
        Rack { folder, counts, pool, stop, thread: Some(thread), _manager: manager }
    }

    /// Returns the number of connections that were given an area.
    pub(crate) fn carried(&self) -> u64 {
        self.counts.carried.load(Ordering::Relaxed)
    }

    /// Returns the path of a file of the test's own.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns a command that runs one test of this program below the library.
    pub(crate) fn role(&self, test: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("a path"));
        command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
        self.preload(&mut command);
        command
    }

    /// Has a command preload the library.
    pub(crate) fn preload(&self, command: &mut Command) {
        command.env("LD_PRELOAD", library());
        command.env(unrack_socket::SOCKET_VARIABLE, self.folder.join("sockets.sock"));
        command.env(unrack_socket::AFTER_VARIABLE, "1");
    }

    /// Runs one test of this program below the library, and fails as it does: with wakeups, and again where there is no
    /// descriptor for any, so that all are woken by bytes.
    pub(crate) fn run(&self, test: &str) {
        self.run_with(test, |_| {});
    }

    /// As [`run`](Rack::run), with what a function adds to the command.
    pub(crate) fn run_with(&self, test: &str, add: impl Fn(&mut Command)) {
        for mut role in [self.role(test), without_wakeups(self.role(test))] {
            add(&mut role);
            run(role, test);
        }
    }
}

/// Runs a command, which has to succeed, and returns what it printed.
pub(crate) fn output_of(mut command: Command) -> String {
    let output = command.output().expect("the command starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, text(&output.stderr));
    text(&output.stdout)
}

fn run(mut role: Command, test: &str) {
    let child: Child = role.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a child");
    let output = child.wait_with_output().expect("its output");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success() && text(&output.stdout).contains("1 passed"),
        "{test}: {}\n{}\n{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
}

/// Leaves a command no descriptors as high as those of wakeups.
pub(crate) fn without_wakeups(mut command: Command) -> Command {
    // SAFETY: one system call.
    unsafe {
        command.pre_exec(|| {
            let few = libc::rlimit { rlim_cur: 512, rlim_max: 512 };
            if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const few) == 0 {
                Ok(())
            } else {
                Err(std::io::Error::last_os_error())
            }
        })
    };
    command
}

impl Drop for Rack {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "the broker panicked");
        }
    }
}

/// Returns the path of the preload library, which is built beside this program.
pub(crate) fn library() -> PathBuf {
    let own = std::env::current_exe().expect("a path");
    let folder = own.parent().and_then(Path::parent).expect("a folder");
    let library = folder.join("libunrack_sockets.so");
    assert!(library.is_file(), "{} is not built: build the workspace", library.display());
    library
}
