//! Hostile clients: whatever they write where a server reads, the server goes on, and others are answered.

use crate::common::{Pool, modes, serve};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use unrack_pool::Channel;
use unrack_pool::cache_control::{LINE, SharedMemory};
use unrack_pool::wire::Denied;
use unrack_rpc::{Client, client, server};

const PATIENCE: Duration = Duration::from_secs(60);

/// A greeting of version 1, the current one.
const HELLO: &[u8] = b"urrpc\0\x01\0\0\0";

fn word(channel: &Channel, at: usize) -> &AtomicU64 {
    assert!(at * 8 < channel.queues().bytes as usize);
    // SAFETY: inside of the queue area; atomics may be shared.
    unsafe { channel.queue_base().cast::<AtomicU64>().add(at).as_ref() }
}

fn is_answered(honest: &Client) {
    let start = Instant::now();
    let mut request = honest.request(16).expect("a buffer");
    request.body().put(0, [20u64, 22]).expect("sixteen bytes");
    let answer = request.call("sum").expect("an answer");
    assert_eq!(answer.body().get::<u64>(0).expect("eight bytes"), 42);
    assert!(start.elapsed() < PATIENCE, "in good time");
}

fn honest(pool: &Pool) -> Client {
    pool.client(client::Options { deadline: Some(PATIENCE), ..client::Options::default() })
}

#[test]
fn noise_in_the_queues_harms_nobody_else() {
    for mode in modes() {
        for workers in [0, 2] {
            let pool = Pool::new(mode);
            let _serving = serve(&pool.socket(), server::Options { workers, ..server::Options::default() });
            let honest = honest(&pool);
            let raw = pool.raw();
            let mut random = SmallRng::seed_from_u64(workers as u64);
            for _ in 0..4 {
                let (channel, _) = raw.open("test", HELLO, 0, &[], PATIENCE).unwrap();
                let words = channel.queues().bytes as usize / 8;
                for round in 0..500 {
                    let drawn: u64 = random.random();
                    // Half of the words are small enough that slots and kinds are often in range.
                    let value = if random.random_bool(0.5) { drawn } else { drawn & !(0xffff_ffff << 6) };
                    raw.memory().store(word(&channel, random.random_range(0..words)), value);
                    if round % 100 == 0 {
                        is_answered(&honest);
                    }
                }
            }
            is_answered(&honest);
        }
    }
}

/// Sends as many requests as it can, lap after lap, and never looks at an answer or rings.
#[test]
fn a_client_that_stops_reading_holds_nobody_up() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let _serving = serve(&pool.socket(), server::Options::default());
        let honest = honest(&pool);
        let raw = pool.raw();
        let (channel, _) = raw.open("test", HELLO, 0, &[], PATIENCE).unwrap();
        let lines = honest.slots();
        for lap in 0..20u64 {
            let flag = (1 - lap % 2) << 63;
            for line in 0..lines {
                for beside in [2, 1, 0] {
                    // A call of an unknown method, in a buffer that was never granted.
                    let entry = if beside == 0 { (line as u64) << 38 } else { lap << 32 };
                    raw.memory().store(word(&channel, line * LINE / 8 + beside), entry | flag);
                }
            }
            is_answered(&honest);
        }
    }
}

/// Writes random states to its own page of wakeups: asleep and unwakeable, or woken, different each time.
#[test]
fn wakeups_that_lie_hold_nobody_up() {
    for mode in modes() {
        for workers in [0, 1] {
            let pool = Pool::new(mode);
            let _serving = serve(&pool.socket(), server::Options { workers, ..server::Options::default() });
            let honest = honest(&pool);
            let raw = pool.raw();
            let (channel, _) = raw.open("test", HELLO, 0, &[], PATIENCE).unwrap();
            // SAFETY: a wakeup begins with its word, and this client may write its own; atomics may be shared.
            let wakeup = unsafe { &*std::ptr::from_ref(raw.wakeup(0)).cast::<AtomicU32>() };
            let mut random = SmallRng::seed_from_u64(workers as u64);
            for line in 0..300u64 {
                wakeup.store(if line % 3 == 0 { 1 } else { random.random() }, Ordering::SeqCst);
                for beside in [2, 1, 0] {
                    // A call of an unknown method, which is answered, and rung for.
                    let entry = if beside == 0 { line << 38 } else { 1 << 32 };
                    raw.memory().store(word(&channel, line as usize * LINE / 8 + beside), entry | 1 << 63);
                }
                if line % 20 == 0 {
                    is_answered(&honest);
                }
            }
            is_answered(&honest);
            wakeup.store(0, Ordering::SeqCst);
        }
    }
}

/// Keeps writing to a request that a handler reads, and to an answer that a handler writes.
#[test]
fn messages_that_change_while_they_are_read_harm_nobody_else() {
    for mode in modes() {
        for workers in [0, 2] {
            let pool = Pool::new(mode);
            let _serving = serve(&pool.socket(), server::Options { workers, ..server::Options::default() });
            let honest = honest(&pool);
            let hostile = pool.client(client::Options::default());
            let mut random = SmallRng::seed_from_u64(workers as u64);
            for round in 0..100 {
                const WORDS: usize = 1000;
                let mut request = hostile.request(WORDS * 8).unwrap();
                let base = request.body().as_mut_ptr().cast::<AtomicU64>();
                let (mut stream, mut pending) = (None, None);
                match round % 4 {
                    0 => stream = Some(request.stream("count", 1).unwrap()),
                    // Its first word says how much is asked for.
                    1 => pending = Some(request.start("fill").unwrap()),
                    2 => pending = Some(request.start("sum").unwrap()),
                    _ => pending = Some(request.start("echo").unwrap()),
                }
                for _ in 0..2000 {
                    // SAFETY: inside of the buffer, which is kept until the call is over; atomics may be shared.
                    let word =
                        unsafe { &*base.add(random.random_range(0..8) * random.random_range(0..WORDS / 8)) };
                    word.store(random.random_range(0..9000), Ordering::Relaxed);
                }
                drop(pending.map(client::PendingCall::wait));
                drop(stream);
                if round % 20 == 0 {
                    is_answered(&honest);
                }
            }
            is_answered(&honest);
        }
    }
}

#[test]
fn clients_that_greet_otherwise_are_told_why_not() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let _serving = serve(&pool.socket(), server::Options::default());
        let raw = pool.raw();
        for (greeting, code, text) in
            [(&b"urrpc\0\x09\0"[..], 1, "1"), (b"hello", 2, "does not speak"), (b"", 2, "does not speak")]
        {
            match raw.open("test", greeting, 0, &[], PATIENCE).map(drop) {
                Err(unrack_pool::Error::Denied(Denied::Refused(refused))) => {
                    assert_eq!(refused.code, code);
                    assert!(refused.text.contains(text), "{}", refused.text);
                }
                other => panic!("{other:?}"),
            }
        }
        is_answered(&honest(&pool));
    }
}
