//! A server that is stopped just after it announced a sleep, so that it cannot be woken.

use crate::common::Pool;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use unrack_pool::WakesSent;
use unrack_pool::cache_control::MemoryKind;
use unrack_rpc::ends::QueueLayout;
use unrack_rpc::queue::entry::{Answer, Request};
use unrack_rpc::queue::{Receiver, Sender};
use unrack_rpc::{Client, EntryStatus, Error, WaitPolicy, client};

/// Longer than anything takes that ends at all.
const PATIENCE: Duration = Duration::from_secs(60);
const DEADLINE: Duration = Duration::from_millis(300);

/// Role of this program if a test started it: a server that stops itself on its way to sleep, and answers once it
/// runs again.
#[test]
fn role() {
    let Ok(socket) = std::env::var("UNRACK_RPC_STOPS") else { return };
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
    let pool = unrack_pool::Client::connect_as(Path::new(&socket), "stops").unwrap();
    let service = pool.register("test").unwrap();
    println!("\nregistered");
    let layout = QueueLayout::fitting(pool.pool().queue_bytes as usize).unwrap();
    let hello = [b"urrpc\0\x01\0".as_slice(), &(layout.lines() as u16).to_le_bytes()].concat();
    let channel = service.accept(PATIENCE).unwrap().expect("a client").accept(&hello, 0, &[]).unwrap();
    pool.wakeup(0).sleep(Some(PATIENCE), || {
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP).unwrap();
        // Lasts until all threads are stopped; the rest of it passes when they go on.
        std::thread::sleep(Duration::from_millis(20));
        false
    });
    let area = channel.queue_base().as_ptr();
    // SAFETY: the area is mapped as long as the channel, and only this process writes the answers.
    let (mut requests, mut answers) = unsafe {
        (
            Receiver::new(pool.memory().clone(), area.add(layout.requests()), layout.lines()),
            Sender::new(pool.memory().clone(), area.add(layout.answers()), layout.lines()),
        )
    };
    let mut rung = WakesSent::default();
    while channel.gone().is_none() {
        let Some(entries) = requests.receive() else {
            channel.peer_wakeup().try_wake(&mut rung);
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        let Request { slot, generation, offset, length, .. } = Request::from_entries(entries).unwrap();
        let answer = Answer { status: EntryStatus::DONE, slot, generation, offset, length };
        answers.send(answer.entries());
    }
}

/// Process of the server.
struct Server(Child);

impl Server {
    /// Starts the server. Clients can then connect, and so stop it.
    fn start(socket: &Path) -> Server {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "stopped::role", "--nocapture", "--test-threads=1"]);
        let mut child =
            command.env("UNRACK_RPC_STOPS", socket).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line == "registered"));
        Server(child)
    }

    fn wait_until_stopped(&self) {
        let start = Instant::now();
        let is_stopped = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
            stat[stat.rfind(')').unwrap()..].starts_with(") T")
        };
        while !is_stopped() {
            assert!(start.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn go_on(&self) {
        let pid = rustix::process::Pid::from_raw(self.0.id() as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the processor time of this thread.
fn used() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

#[test]
fn a_stopped_server_costs_a_deadline_and_no_processor() {
    for waiting in [WaitPolicy::Adaptive, WaitPolicy::Sleep] {
        let pool = Pool::new(MemoryKind::Coherent);
        let server = Server::start(&pool.socket());
        let client = pool.client(client::Options { waiting, ..client::Options::default() });
        server.wait_until_stopped();
        let (tell, told) = channel();
        std::thread::scope(|scope| {
            let (client, server) = (&client, &server);
            // The server is killed if calls do not end, so that all calls end and this test too.
            let guard = scope.spawn(move || {
                let ended = told.recv_timeout(PATIENCE).is_ok();
                if !ended {
                    let pid = rustix::process::Pid::from_raw(server.0.id() as i32).unwrap();
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
                ended
            });
            let (start, before) = (Instant::now(), used());
            let mut request = client.request(8).unwrap();
            request.set_deadline(DEADLINE);
            let ended = request.call("any").map(drop);
            let (elapsed, used) = (start.elapsed(), used() - before);
            let _ = tell.send(());
            assert!(guard.join().unwrap(), "{waiting}: it ends by its deadline");
            assert!(matches!(ended, Err(Error::Deadline { stopped: true, .. })), "{waiting}: {ended:?}");
            assert!(ended.unwrap_err().to_string().contains("stopped"));
            assert!(elapsed >= DEADLINE && used < elapsed / 2, "{waiting}: {used:?} of {elapsed:?}");
        });

        // A call without a deadline waits, and is answered when the server goes on.
        std::thread::scope(|scope| {
            let calling = scope.spawn(|| client.request(8).unwrap().call("any").map(drop));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!calling.is_finished());
            server.go_on();
            calling.join().unwrap().expect("an answer");
        });
    }
}

/// Calls whose answers are not waited for are not delayed by a server that cannot be woken.
#[test]
fn a_stopped_server_does_not_hold_up_who_sends() {
    let pool = Pool::new(MemoryKind::Coherent);
    let server = Server::start(&pool.socket());
    let client: Client = pool.client(client::Options::default());
    server.wait_until_stopped();
    let before = used();
    for _ in 0..50 {
        client.request(8).unwrap().send("any").unwrap();
    }
    let pending = client.request(8).unwrap().start("any").unwrap();
    assert!(used() - before < Duration::from_secs(1));
    server.go_on();
    pending.wait().expect("an answer");
}
