//! Hostile servers: clients get an answer with their own bytes or an error, in time, and other clients keep their
//! memory.

use crate::common::books::Books;
use crate::common::{Pool, modes, serve};
use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use unrack_pool::cache_control::{AnyMemory, LINE, SharedMemory};
use unrack_pool::{Channel, WakesSent};
use unrack_rpc::ends::QueueLayout;
use unrack_rpc::queue::entry::{Answer, Request};
use unrack_rpc::queue::{Receiver, Sender};
use unrack_rpc::{Client, EntryStatus, Error, client, server};

const PATIENCE: Duration = Duration::from_secs(60);
const DEADLINE: Duration = Duration::from_millis(20);
/// Time beyond a deadline that a busy machine may take.
const SLACK: Duration = Duration::from_secs(60);
const BYTES: usize = 200;

/// Misbehaviour of a server on a request that it should answer once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    OtherOffset,
    OtherSlot,
    NoSuchSlot,
    OtherGeneration,
    TooLong,
    Longest,
    NotItsStatus,
    Twice,
    /// Answers over and over, more often than the queue has lines.
    Flood,
    Never,
    /// Writes any words anywhere in the queues.
    Noise,
    Dies,
}

const ALL: [Wrong; 12] = [
    Wrong::OtherOffset,
    Wrong::OtherSlot,
    Wrong::NoSuchSlot,
    Wrong::OtherGeneration,
    Wrong::TooLong,
    Wrong::Longest,
    Wrong::NotItsStatus,
    Wrong::Twice,
    Wrong::Flood,
    Wrong::Never,
    Wrong::Noise,
    Wrong::Dies,
];

fn answers(wrong: Wrong, request: &Request, lines: usize) -> Vec<Answer> {
    let Request { slot, generation, offset, length, .. } = *request;
    let right = Answer { status: EntryStatus::DONE, slot, generation, offset, length };
    match wrong {
        Wrong::OtherOffset => vec![Answer { offset: offset + LINE as u64, ..right }],
        Wrong::OtherSlot => vec![Answer { slot: slot ^ 1, ..right }],
        Wrong::NoSuchSlot => vec![Answer { slot: (lines % 1024) as u16, ..right }],
        Wrong::OtherGeneration => vec![Answer { generation: generation - 1, ..right }],
        Wrong::TooLong => vec![Answer { length: request.capacity + 1, ..right }],
        Wrong::Longest => vec![Answer { length: u32::MAX, status: EntryStatus::MORE, ..right }],
        Wrong::NotItsStatus => vec![Answer { status: EntryStatus::STALE, length: u32::MAX, ..right }],
        Wrong::Twice => vec![right; 2],
        Wrong::Flood => vec![right; 2 * lines + 3],
        Wrong::Never | Wrong::Noise | Wrong::Dies => Vec::new(),
    }
}

/// Serves one client after the other, wrongly, until it is stopped.
fn answer_wrongly(pool: &unrack_pool::Client, wrong: Wrong, stop: &AtomicBool, registered: &AtomicBool) {
    let service = pool.register("hostile").unwrap();
    registered.store(true, Ordering::Release);
    let layout = QueueLayout::fitting(pool.pool().queue_bytes as usize).unwrap();
    let hello = [b"urrpc\0\x01\0".as_slice(), &(layout.lines() as u16).to_le_bytes()].concat();
    while !stop.load(Ordering::Acquire) {
        if let Some(offer) = service.accept(Duration::from_millis(5)).unwrap() {
            let channel = offer.accept(&hello, 0, &[]).unwrap();
            serve_wrongly(pool.memory(), &channel, layout, wrong, stop);
        }
    }
}

fn serve_wrongly(
    memory: &AnyMemory,
    channel: &Channel,
    layout: QueueLayout,
    wrong: Wrong,
    stop: &AtomicBool,
) {
    let area = channel.queue_base().as_ptr();
    // SAFETY: the area is mapped as long as the channel; only this test writes the answers.
    let (mut requests, mut queue) = unsafe {
        (
            Receiver::new(memory.clone(), area.add(layout.requests()), layout.lines()),
            Sender::new(memory.clone(), area.add(layout.answers()), layout.lines()),
        )
    };
    let mut random = SmallRng::seed_from_u64(1);
    let mut rung = WakesSent::default();
    let mut seen = 0;
    while channel.gone().is_none() && !stop.load(Ordering::Acquire) {
        let Some(entries) = requests.receive() else {
            std::thread::yield_now();
            continue;
        };
        seen += 1;
        if wrong == Wrong::Dies && seen == 3 {
            return;
        }
        let request = Request::from_entries(entries).expect("the client keeps to the protocol");
        for answer in answers(wrong, &request, layout.lines()) {
            queue.send(answer.entries());
        }
        for _ in 0..if wrong == Wrong::Noise { 200 } else { 0 } {
            let word = random.random_range(0..2 * layout.answers() / 8);
            // SAFETY: inside of the queue area; atomics may be shared.
            let word = unsafe { &*area.cast::<AtomicU64>().add(word) };
            // Half of the words are small enough that slots and generations are often in range.
            let drawn: u64 = random.random();
            let kept = if random.random_bool(0.5) { u64::MAX } else { 0x8000_03ff_0000_00ff };
            memory.store(word, drawn & kept);
        }
        channel.peer_wakeup().try_wake(&mut rung);
    }
}

fn written(at: usize, seed: u8) -> u8 {
    (at as u8).wrapping_mul(7) ^ seed
}

/// Calls in all ways. An answer has the bytes that this very call wrote, since nobody writes others there.
fn call(client: &Client, seed: u8) -> Vec<Result<(), Error>> {
    let request = || -> Result<client::Request<'_>, Error> {
        let mut request = client.request(BYTES)?;
        let bytes: Vec<u8> = (0..BYTES).map(|at| written(at, seed)).collect();
        request.body().copy_from(&bytes);
        Ok(request)
    };
    let check = |body: unrack_rpc::view::View<'_>| {
        assert!(body.len() <= BYTES, "{} bytes", body.len());
        let read = body.to_vec();
        assert!(read.iter().enumerate().all(|(at, &byte)| byte == written(at, seed)), "not its own bytes");
    };
    let plain = || -> Result<(), Error> {
        check(request()?.call("echo")?.body());
        Ok(())
    };
    let dropped = || -> Result<(), Error> { request()?.start("echo").map(drop) };
    let one_way = || request()?.send("echo");
    let stream = || -> Result<(), Error> {
        let mut stream = request()?.stream("count", 1)?;
        // Parts after the first are in buffers that were not written.
        if let Some(part) = stream.next_part()? {
            check(part.body());
        }
        Ok(())
    };
    vec![plain(), dropped(), one_way(), stream(), plain()]
}

#[test]
fn answers_of_any_kind_cost_a_client_its_calls_only() {
    for mode in modes() {
        let pool = Pool::new(mode);
        let _serving = serve(&pool.socket(), server::Options::default());
        let honest = pool.client(client::Options { deadline: Some(PATIENCE), ..client::Options::default() });
        let is_answered = || {
            let mut request = honest.request(16).expect("a buffer");
            request.body().put(0, [20u64, 22]).expect("sixteen bytes");
            let answer = request.call("sum").expect("an answer");
            assert_eq!(answer.body().get::<u64>(0).expect("eight bytes"), 42);
        };
        is_answered();
        let observer = unrack_pool::Client::connect_as(pool.socket(), "observer").unwrap();
        let raw = unrack_pool::Client::connect(pool.socket()).unwrap();
        let before = Books::of(&observer);
        for wrong in ALL {
            let (stop, registered) = (AtomicBool::new(false), AtomicBool::new(false));
            std::thread::scope(|scope| {
                scope.spawn(|| answer_wrongly(&raw, wrong, &stop, &registered));
                while !registered.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                // If all calls are answered, a busy machine has to be waited for.
                let deadline = if wrong == Wrong::Twice { PATIENCE } else { DEADLINE };
                let options = client::Options { deadline: Some(deadline), ..client::Options::default() };
                let client = Client::connect(pool.socket(), "hostile", options).unwrap();
                let mut ends = Vec::new();
                for seed in 0..2 {
                    let start = Instant::now();
                    ends.extend(call(&client, seed));
                    assert!(start.elapsed() < 10 * DEADLINE + SLACK, "{wrong:?}: {:?}", start.elapsed());
                    is_answered();
                }
                stop.store(true, Ordering::Release);
                check_ends(wrong, ends);
            });
            before.come_back(&observer, &format!("{wrong:?} in {mode:?}"));
        }
    }
}

/// Checks that the calls ended as the protocol says.
fn check_ends(wrong: Wrong, ends: Vec<Result<(), Error>>) {
    for end in &ends {
        match (wrong, end) {
            (_, Ok(()) | Err(Error::Deadline { .. } | Error::Exhausted { .. })) => {}
            (Wrong::Dies, Err(Error::Gone { .. })) => {}
            (Wrong::NotItsStatus | Wrong::Noise, Err(Error::Protocol { .. })) => {}
            (wrong, Err(error)) => panic!("{wrong:?}: {error}"),
        }
    }
    match wrong {
        Wrong::Twice => assert!(ends.iter().all(Result::is_ok), "{ends:?}"),
        Wrong::Flood | Wrong::Noise => {}
        Wrong::Dies => assert!(ends.last().is_some_and(Result::is_err), "{ends:?}"),
        _ => assert!(ends[0].is_err(), "{wrong:?}: {ends:?}"),
    }
}
