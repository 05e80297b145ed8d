//! A process that can have no more descriptors: it gets an error that says so, calls under way go on, and all
//! works again when there are descriptors again.

use crate::common::books::Books;
use crate::common::{Pool, host_modes};
use rustix::process::{Resource, Rlimit, Signal, setrlimit};
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use unrack_pool::wire::Cause;
use unrack_rpc::{Client, Error, client, server};

const PATIENCE: Duration = Duration::from_secs(2);
const SLACK: Duration = Duration::from_secs(60);
const MOST_DESCRIPTORS: u64 = 64;
/// More bytes than are leased for small messages.
const LARGE: usize = 12 << 20;

fn options() -> client::Options {
    client::Options {
        deadline: Some(Duration::from_secs(120)),
        patience: PATIENCE,
        ..client::Options::default()
    }
}

/// Descriptors that a process holds so that it has no others.
#[derive(Default)]
struct Held(Vec<File>);

impl Held {
    /// Takes all descriptors that the process may have.
    fn take_all(&mut self) {
        let limit = Rlimit { current: Some(MOST_DESCRIPTORS), maximum: Some(MOST_DESCRIPTORS) };
        setrlimit(Resource::Nofile, limit).unwrap();
        while let Ok(file) = File::open("/dev/null") {
            self.0.push(file);
        }
    }
}

fn sum(client: &Client) -> Result<(), Error> {
    let mut request = client.request(16)?;
    request.body().put(0, [20u64, 22]).expect("sixteen bytes");
    let answer = request.call("sum")?;
    assert_eq!(answer.body().get::<u64>(0).expect("eight bytes"), 42);
    Ok(())
}

fn large(client: &Client) -> Result<(), Error> {
    client.request(LARGE)?.call("echo").map(drop)
}

fn connect(socket: &Path) -> Result<Client, Error> {
    let start = Instant::now();
    let connected = Client::connect(socket, "test", options());
    assert!(start.elapsed() < PATIENCE + SLACK, "{:?}", start.elapsed());
    connected
}

fn start(role: &str, socket: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "descriptors::role", "--nocapture", "--test-threads=1"]);
    command.env("UNRACK_RPC_ROLE", role).env("UNRACK_RPC_SOCKET", socket);
    command.stdout(Stdio::null()).spawn().expect("this program can be started")
}

/// Role of this program if a test started it; does nothing otherwise.
#[test]
fn role() {
    let Ok(role) = std::env::var("UNRACK_RPC_ROLE") else { return };
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
    let socket = std::env::var("UNRACK_RPC_SOCKET").unwrap();
    match role.as_str() {
        "server" => serve(Path::new(&socket)),
        _ => call(Path::new(&socket)),
    }
}

/// Serves methods that take and give back the process's descriptors.
fn serve(socket: &Path) {
    let held = std::sync::Arc::new(Mutex::new(Held::default()));
    let giving = held.clone();
    let _serving = crate::common::service(server::Options::default())
        .method("take", move |_| {
            held.lock().unwrap().take_all();
            Ok(())
        })
        .method("give", move |call| {
            drop(giving.lock().unwrap().0.pop());
            call.answer(8)?.put(0, giving.lock().unwrap().0.len() as u64).expect("eight bytes");
            Ok(())
        })
        .serve(socket)
        .unwrap();
    loop {
        std::thread::park();
    }
}

fn says_why(error: &Error) {
    assert!(error.to_string().contains("Too many open files"), "{error}");
}

fn call(socket: &Path) {
    let client = connect(socket).unwrap();
    sum(&client).unwrap();
    let mut held = Held::default();
    held.take_all();
    loop {
        sum(&client).expect("calls go on");
        match connect(socket) {
            Ok(other) => {
                sum(&other).unwrap();
                break;
            }
            Err(error) => says_why(&error),
        }
        if let Err(error) = large(&client) {
            says_why(&error);
        }
        held.0.pop().expect("it works when there are descriptors");
    }
    held.0.clear();
    large(&client).expect("as before");
    sum(&client).expect("as before");
}

#[test]
fn a_client_without_descriptors_says_so_and_recovers() {
    for mode in host_modes() {
        let pool = Pool::new(mode);
        let _serving = crate::common::serve(&pool.socket(), server::Options::default());
        let observer = unrack_pool::Client::connect_as(pool.socket(), "observer").unwrap();
        let honest = pool.client(options());
        sum(&honest).unwrap();
        let before = Books::of(&observer);
        let mut child = start("client", &pool.socket());
        assert!(child.wait().unwrap().success());
        before.come_back(&observer, "a client without descriptors");
        sum(&honest).unwrap();
    }
}

#[test]
fn a_server_without_descriptors_refuses_and_recovers() {
    for mode in host_modes() {
        let pool = Pool::new(mode);
        let observer = unrack_pool::Client::connect_as(pool.socket(), "observer").unwrap();
        let serving = crate::common::serve(&pool.socket(), server::Options::default());
        sum(&pool.client(options())).unwrap();
        drop(serving);
        // No process is left, but the section of the queues stays.
        let before = Books::of(&observer);
        let mut child = start("server", &pool.socket());
        let end = Instant::now() + Duration::from_secs(60);
        let client = loop {
            match connect(&pool.socket()) {
                Ok(client) => break client,
                Err(error) => assert!(Instant::now() < end, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let second = connect(&pool.socket()).unwrap();
        sum(&client).unwrap();
        client.request(0).unwrap().call("take").unwrap();
        // It cannot map the message's memory: a client that connects again can call it later. The first call
        // fails with its answer, or with the news that the connection is over.
        for _ in 0..3 {
            let error = large(&second).expect_err("it cannot be mapped");
            assert!(matches!(error, Error::Gone { cause: Cause::CannotMap, .. }), "{error}");
            assert!(error.is_gone() && error.to_string().contains("ulimit -n"), "{error}");
        }
        loop {
            sum(&client).expect("calls go on");
            match connect(&pool.socket()) {
                Ok(other) => {
                    sum(&other).unwrap();
                    break;
                }
                Err(error) => says_why(&error),
            }
            let left = client.request(8).unwrap().call("give").unwrap().body().get::<u64>(0).unwrap();
            assert!(left > 0, "it works when there are descriptors");
        }
        while client.request(8).unwrap().call("give").unwrap().body().get::<u64>(0).unwrap() > 0 {}
        large(&client).expect("as before");
        large(&connect(&pool.socket()).unwrap()).expect("as before");
        child.kill().unwrap();
        child.wait().unwrap();
        drop((client, second));
        before.come_back(&observer, "a server without descriptors");
    }
}
