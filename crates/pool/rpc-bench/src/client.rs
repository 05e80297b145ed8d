//! Calls whose rate and duration are measured.

use crate::Error;
use crate::results::ProcessorUse;
use crate::service::{PASS, PROCESSOR, SERVICE, TOUCH, read, write};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};
use unrack_rpc::client::{CallWindow, Options, PendingCall};
use unrack_rpc::{Client, WaitPolicy};

/// Load that a client makes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BenchLoad {
    pub bytes: usize,
    pub window: u16,
    pub connections: u16,
    /// Whether all connections share one pair of queues. Otherwise each has a separate pair.
    pub shared: bool,
    /// Whether client and server read and write all bytes of the messages.
    pub touched: bool,
    #[serde(skip)]
    pub waiting: WaitPolicy,
}

/// Results of one round of one load.
pub struct Round {
    pub calls_per_s: f64,
    pub ns: Histogram<u64>,
}

/// Returns a histogram of nanoseconds, up to a minute and with a precision of three digits.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are ours")
}

impl BenchLoad {
    fn connect(&self, pool: &Path) -> Result<Vec<Client>, Error> {
        let options = || Options {
            waiting: self.waiting,
            window: CallWindow::Fixed(self.window),
            ..Options::default()
        };
        let connect = || Client::connect(pool, SERVICE, options());
        let mut clients = vec![connect()?];
        while clients.len() < usize::from(self.connections) {
            clients.push(if self.shared { clients[0].connection() } else { connect()? });
        }
        Ok(clients)
    }

    /// Returns the number of calls that each connection has in flight. Connections that share queues divide the slots
    /// of the queues.
    fn ahead(&self, clients: &[Client]) -> usize {
        let sharing = if self.shared { clients.len() } else { 1 };
        (usize::from(self.window) + 1).min((clients[0].slots() / sharing).max(1))
    }
}

/// Connections and their calls in flight, of which the oldest comes first.
struct CallsInFlight<'c> {
    load: BenchLoad,
    clients: &'c [Client],
    under_way: Vec<VecDeque<(PendingCall<'c>, u64)>>,
    next: usize,
}

impl<'c> CallsInFlight<'c> {
    fn new(load: BenchLoad, clients: &'c [Client]) -> Result<CallsInFlight<'c>, Error> {
        let under_way = clients.iter().map(|_| VecDeque::new()).collect();
        let mut calls = CallsInFlight { load, clients, under_way, next: 0 };
        for _ in 0..load.ahead(clients) {
            for at in 0..clients.len() {
                calls.start(at, 0)?;
            }
        }
        Ok(calls)
    }

    /// Starts a call. [`CallsInFlight::finish`] returns `now` when the call is answered.
    #[inline(always)]
    fn start(&mut self, at: usize, now: u64) -> Result<(), Error> {
        let mut request = self.clients[at].request(self.load.bytes)?;
        if self.load.touched {
            write(request.body(), 1);
        }
        let method = if self.load.touched { TOUCH } else { PASS };
        self.under_way[at].push_back((request.start(method)?, now));
        Ok(())
    }

    /// Waits for the oldest call of a connection, and returns the time when it was started.
    #[inline(always)]
    fn finish(&mut self, at: usize) -> Result<u64, Error> {
        let (pending, started) = self.under_way[at].pop_front().expect("each has calls under way");
        let answer = pending.wait()?;
        if self.load.touched {
            std::hint::black_box(read(answer.body()));
        }
        Ok(started)
    }

    /// Returns the next connection; connections take turns.
    #[inline(always)]
    fn turn(&mut self) -> usize {
        let at = self.next;
        self.next = if at + 1 == self.clients.len() { 0 } else { at + 1 };
        at
    }
}

/// Number of calls between two readings of the clock.
const BATCH: u32 = 64;

/// Measures a load. Half of the time is for the throughput, without a reading of the clock for each call; the other
/// half is for the duration of each call.
///
/// # Errors
/// [`Error::Call`] if a connection cannot be made or a call fails.
pub fn measure(pool: &Path, load: BenchLoad, time: Duration) -> Result<Round, Error> {
    let clients = load.connect(pool)?;
    let mut calls = CallsInFlight::new(load, &clients)?;
    throughput(&mut calls, time / 10)?;
    let calls_per_s = throughput(&mut calls, time / 2)?;
    let ns = times(&mut calls, time / 2)?;
    Ok(Round { calls_per_s, ns })
}

/// Returns the number of calls per second, from the median duration of the batches. The median is used because other
/// work on the machine disturbs some of the batches.
fn throughput(calls: &mut CallsInFlight<'_>, time: Duration) -> Result<f64, Error> {
    let mut batches = histogram();
    let begun = Instant::now();
    let mut before = begun;
    while before - begun < time {
        for _ in 0..BATCH {
            let at = calls.turn();
            calls.finish(at)?;
            calls.start(at, 0)?;
        }
        let now = Instant::now();
        batches.saturating_record((now - before).as_nanos() as u64);
        before = now;
    }
    Ok(f64::from(BATCH) * 1e9 / batches.value_at_quantile(0.5) as f64)
}

fn times(calls: &mut CallsInFlight<'_>, time: Duration) -> Result<Histogram<u64>, Error> {
    let mut ns = histogram();
    let begun = Instant::now();
    let end = time.as_nanos() as u64;
    // The calls in flight were started before this measurement, so they are not timed. On a busy machine they may take
    // all the time.
    let mut untimed = calls.under_way.iter().map(VecDeque::len).sum::<usize>();
    let mut now = 0;
    while now < end || ns.is_empty() {
        let at = calls.turn();
        let started = calls.finish(at)?;
        now = begun.elapsed().as_nanos() as u64;
        match untimed.checked_sub(1) {
            Some(left) => untimed = left,
            None => ns.saturating_record(now - started),
        }
        calls.start(at, now)?;
    }
    Ok(ns)
}

/// Measures the server's use of the processor while one client makes `rate` calls per second.
///
/// # Errors
/// [`Error::Call`] if the connection cannot be made or a call fails; [`Error::Answer`] if the server's answer contains
/// no processor time.
pub fn use_at(pool: &Path, rate: u32, bytes: usize, time: Duration) -> Result<ProcessorUse, Error> {
    let client = Client::connect(pool, SERVICE, Options::default())?;
    let used = || -> Result<u64, Error> {
        let answer = client.request(8)?.call(PROCESSOR)?;
        Ok(answer.body().get(0)?)
    };
    let (begun, before) = (Instant::now(), used()?);
    let mut ns = histogram();
    let count = (f64::from(rate) * time.as_secs_f64()) as u32;
    for call in 0..count {
        wait_until(begun + Duration::from_secs_f64(f64::from(call) / f64::from(rate)));
        let started = Instant::now();
        let mut request = client.request(bytes)?;
        write(request.body(), 1);
        read(request.call(TOUCH)?.body());
        ns.saturating_record(started.elapsed().as_nanos() as u64);
    }
    wait_until(begun + time);
    let elapsed = begun.elapsed();
    let share = (used()? - before) as f64 / elapsed.as_nanos() as f64;
    Ok(ProcessorUse::new(rate, f64::from(count) / elapsed.as_secs_f64(), share, &ns))
}

/// Waits until a point in time. Sleeps first, and polls the clock only for the end of the wait, for which a sleep is
/// not exact enough.
fn wait_until(when: Instant) {
    const SLACK: Duration = Duration::from_micros(100);
    let left = when.saturating_duration_since(Instant::now());
    std::thread::sleep(left.saturating_sub(SLACK));
    while Instant::now() < when {
        std::hint::spin_loop();
    }
}
