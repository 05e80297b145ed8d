//! Clients and servers are killed at any moment: no call runs twice, none is left without an end, nothing leaks.
//!
//! Clients call in all ways, over and over, and check answers and how long they took; servers check that the
//! calls they run are whole and new to them. The test kills them with `SIGKILL` at random moments, starts others,
//! and audits the pool's books. `UNRACK_RPC_KILLS` sets how many die in each kind of memory; the seed is printed
//! with a failure, and set by `UNRACK_RPC_SEED`.

use crate::common::{Pool, Setting, modes};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use unrack_pool::wire::{Denied, ListingEntry};
use unrack_pool::{Error as PoolError, SECTION};
use unrack_rpc::server::{Answered, Call, CallRefusal};
use unrack_rpc::{Client, Error, Server, WaitPolicy, client, server};

const SERVERS: usize = 2;
const CLIENTS: usize = 3;
/// More bytes than the living and the not yet cleaned up use: a full pool has lost something.
const CAPACITY: u64 = 512 << 20;
/// Deadline of each call. A call that takes longer, plus the slack of a busy machine, was forgotten.
const DEADLINE: Duration = Duration::from_secs(4);
const SLACK: Duration = Duration::from_secs(60);
const SETTLES: Duration = Duration::from_secs(60);

/// Role of this program if a test started it; does nothing otherwise.
#[test]
fn role() {
    let Ok(role) = std::env::var("UNRACK_RPC_ROLE") else { return };
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    // A panic ends the whole process, whatever its other threads do: the test notices only that.
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        std::process::abort();
    }));
    let words: Vec<&str> = role.split(',').collect();
    let (folder, which, life) = (Path::new(words[1]), words[2].parse().unwrap(), words[3].parse().unwrap());
    match words[0] {
        "server" => serve(&folder.join("pool0"), which, life),
        _ => call(folder, which, life),
    }
}

fn waiting(life: u64) -> WaitPolicy {
    if life.is_multiple_of(2) { WaitPolicy::Adaptive } else { WaitPolicy::Sleep }
}

/// Returns word `at` of the call with this number.
fn word(number: u64, at: usize) -> u64 {
    number.wrapping_mul(2 * at as u64 + 1)
}

/// Runs calls until it is killed.
fn serve(socket: &Path, which: usize, life: u64) {
    let ran = Mutex::new(HashSet::new());
    let run = move |call: &mut Call<'_>| -> Answered {
        let request = call.request();
        let read = |at: usize| request.get::<u64>(at * 8).expect("whole words");
        let number = read(0);
        let words = request.len() / 8;
        (1..words).for_each(|at| assert_eq!(read(at), word(number, at), "the request is not whole"));
        assert!(ran.lock().unwrap().insert(number), "call {number:#x} runs twice");
        let mut answer = call.answer(words * 8)?;
        (0..words).for_each(|at| answer.put(at * 8, !word(number, at)).expect("as long as the request"));
        Ok(())
    };
    let count = |call: &mut Call<'_>| {
        let mut left: u64 = call.request().get(0).map_err(|_| CallRefusal::from_number(0))?;
        Ok(Box::new(move |call: &mut Call<'_>| {
            call.answer(8)?.put(0, left).expect("eight bytes");
            left -= 1;
            Ok(left > 0)
        }) as server::PartSource)
    };
    let run = std::sync::Arc::new(run);
    let deadline = Instant::now() + SETTLES;
    let _serving = loop {
        let options = server::Options {
            waiting: waiting(life),
            workers: (life % 3) as usize,
            ..server::Options::default()
        };
        let run = run.clone();
        let server = Server::new(format!("server-{which}"), options)
            .method("run", move |call| run(call))
            .stream("count", count);
        match server.serve(socket) {
            Ok(serving) => break serving,
            // The name still belongs to the server that was killed.
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    loop {
        std::thread::park();
    }
}

/// Returns the socket of the clients' manager, which may be on another host than the servers'.
fn last_pool(folder: &Path) -> PathBuf {
    let far = folder.join("pool1");
    if far.exists() { far } else { folder.join("pool0") }
}

/// Calls until it is killed, by a new connection when the server is gone. Writes to a file how many were
/// answered.
fn call(folder: &Path, which: usize, life: u64) {
    let mut random = SmallRng::seed_from_u64(life);
    let mut next = life << 32;
    let mut answered = 0u64;
    loop {
        let options = client::Options {
            waiting: waiting(life),
            deadline: Some(DEADLINE),
            resend: random.random_bool(0.5).then_some(Duration::from_millis(1)),
            ..client::Options::default()
        };
        let service = format!("server-{}", random.random_range(0..SERVERS));
        let start = Instant::now();
        let connected = Client::connect(last_pool(folder), &service, options);
        assert!(
            start.elapsed() < client::Options::default().patience + SLACK,
            "connecting took {:?}",
            start.elapsed()
        );
        let client = match connected {
            Ok(client) => client,
            Err(error) => {
                tolerate(error);
                continue;
            }
        };
        for _ in 0..random.random_range(1..200) {
            let start = Instant::now();
            let ended = calls(&client, &mut random, &mut next);
            assert!(start.elapsed() < 2 * DEADLINE + SLACK, "calls took {:?}", start.elapsed());
            match ended {
                Ok(count) => answered += count,
                Err(error) => {
                    let gone = error.is_gone();
                    tolerate(error);
                    if gone {
                        break;
                    }
                }
            }
        }
        std::fs::write(folder.join(format!("answered-{which}")), format!("{life} {answered}")).unwrap();
    }
}

/// Accepts the errors that may result when others are killed, and checks that they name the peer.
fn tolerate(error: Error) {
    match error {
        Error::Gone { ref peer, .. } => assert!(peer.contains("process"), "{error}"),
        Error::Deadline { .. }
        | Error::Pool(PoolError::Denied(Denied::NoService(_) | Denied::Gone { .. } | Denied::Slow(_)))
        | Error::Pool(PoolError::TimedOut(_)) => {}
        error => panic!("{error}"),
    }
}

fn request<'c>(
    client: &'c Client,
    random: &mut SmallRng,
    next: &mut u64,
) -> Result<(client::Request<'c>, u64, usize), Error> {
    let words = match random.random_range(0..10) {
        0 => random.random_range(1..20_000),
        _ => random.random_range(1..40),
    };
    let mut request = client.request(words * 8)?;
    let number = *next;
    *next += 1;
    let mut body = request.body();
    (0..words).for_each(|at| body.put(at * 8, word(number, at)).expect("so many words"));
    Ok((request, number, words))
}

/// Makes some calls of one kind. Returns how many were answered.
fn calls(client: &Client, random: &mut SmallRng, next: &mut u64) -> Result<u64, Error> {
    match random.random_range(0..8) {
        0 => {
            let (request, ..) = request(client, random, next)?;
            request.send("run")?;
            Ok(0)
        }
        1 => {
            let (request, ..) = request(client, random, next)?;
            drop(request.start("run")?);
            Ok(0)
        }
        2 => {
            let mut request = client.request(8)?;
            request.body().put(0, 5u64).expect("eight bytes");
            let mut stream = request.stream("count", 2)?;
            let mut left = 5;
            while let Some(part) = stream.next_part()? {
                assert_eq!(part.body().get::<u64>(0).expect("eight bytes"), left);
                left -= 1;
            }
            assert_eq!(left, 0, "parts are missing");
            Ok(1)
        }
        3 => {
            // Slots of calls that nobody waits for come back.
            let all: Result<Vec<_>, Error> = (0..client.slots()).map(|_| client.request(8)).collect();
            all.map(|_| 0)
        }
        _ => {
            let pending = (0..random.random_range(1..16))
                .map(|_| {
                    let (request, number, words) = request(client, random, next)?;
                    Ok((request.start("run")?, number, words))
                })
                .collect::<Result<Vec<_>, Error>>()?;
            let count = pending.len() as u64;
            for (call, number, words) in pending {
                let answer = call.wait()?;
                assert_eq!(answer.body().len(), words * 8);
                for at in 0..words {
                    let found: u64 = answer.body().get(at * 8).expect("so many words");
                    assert_eq!(found, !word(number, at), "the answer is not whole");
                }
            }
            Ok(count)
        }
    }
}

/// Processes of this program that have a role, and the number of them so far.
struct Cast {
    folder: PathBuf,
    lives: u64,
}

impl Cast {
    fn start(&mut self, which: usize) -> Child {
        self.lives += 1;
        let (role, number) = if which < SERVERS { ("server", which) } else { ("client", which - SERVERS) };
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "kills::role", "--nocapture", "--test-threads=1"]);
        command.env("UNRACK_RPC_ROLE", format!("{role},{},{number},{}", self.folder.display(), self.lives));
        command.stdout(Stdio::null()).spawn().expect("this program can be started")
    }

    /// Returns which life each client is in and how many of its calls were answered.
    fn progress(&self) -> Vec<String> {
        let read = |which| std::fs::read_to_string(self.folder.join(format!("answered-{which}")));
        (0..CLIENTS).map(|which| read(which).unwrap_or_default()).collect()
    }
}

fn wait_for(what: &str, seed: u64, mut holds: impl FnMut() -> Result<(), String>) {
    let start = Instant::now();
    while let Err(wrong) = holds() {
        assert!(start.elapsed() < SETTLES, "{what}: {wrong}; UNRACK_RPC_SEED={seed}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Checks that only the observer is left, and that all memory is free, except for sections that once held queues.
fn audit(observer: &unrack_pool::Client) -> Result<(), String> {
    let listed = observer.list().map_err(|error| error.to_string())?;
    let mut clients = 0;
    for entry in &listed {
        match entry {
            ListingEntry::Pool { free_bytes, .. } if CAPACITY - free_bytes > 2 * SECTION => {
                return Err(format!("{free_bytes} bytes are free of {CAPACITY}"));
            }
            ListingEntry::Pool { .. } | ListingEntry::Host { .. } | ListingEntry::FarService { .. } => {}
            ListingEntry::Client { .. } => clients += 1,
            ListingEntry::Segment { .. } | ListingEntry::Service { .. } | ListingEntry::Channel { .. } => {
                return Err(format!("{entry:?} is left"));
            }
        }
    }
    if clients == 1 { Ok(()) } else { Err(format!("{clients} processes are listed")) }
}

fn kill_at_random(mode: Setting, kills: u64) {
    let seed = std::env::var("UNRACK_RPC_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()));
    let mut random = SmallRng::seed_from_u64(seed);
    let pool = Pool::with(mode, "512MiB", |_| {});
    let socket = pool.socket();
    let mut cast = Cast { folder: socket.parent().expect("it is in a folder").into(), lives: 0 };
    let mut children: Vec<Child> = (0..SERVERS + CLIENTS).map(|which| cast.start(which)).collect();
    let observer = unrack_pool::Client::connect_as(&socket, "observer").unwrap();
    for _ in 0..kills {
        std::thread::sleep(Duration::from_micros(random.random_range(0..20_000)));
        let which = random.random_range(0..children.len());
        let victim = &mut children[which];
        if let Some(status) = victim.try_wait().unwrap() {
            panic!("it ended by itself: {status}; UNRACK_RPC_SEED={seed}");
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
        *victim = cast.start(which);
    }
    let before = cast.progress();
    wait_for("the living go on", seed, || {
        let now = cast.progress();
        let stuck = before.iter().zip(&now).any(|(before, now)| before == now);
        if stuck { Err(format!("{before:?}, {now:?}")) } else { Ok(()) }
    });
    for mut child in children {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself; UNRACK_RPC_SEED={seed}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    wait_for("when all are dead", seed, || audit(&observer));
}

#[test]
fn killed_at_random() {
    let kills = std::env::var("UNRACK_RPC_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(80);
    for mode in modes() {
        kill_at_random(mode, if mode.is_between_hosts() { kills / 2 } else { kills });
    }
}
