//! Throughput of the block codec and of the EDM scheduler: `cargo bench -p unrack-phy`.
//!
//! Codec: million blocks per second on one core, in the fastest of several passes, and the ratio of this rate to that of a line of 25 GbE
//! (390.6 M blocks/s). *encode* converts MAC frames to scrambled blocks, and computes the FCS. *decode* converts the blocks back to frames,
//! and verifies the FCS. *build* converts memory messages to blocks. *parse* converts the blocks back to messages, and verifies their
//! checks.
//!
//! Scheduler: grants and iterations per second, while a demand of every pair of nodes waits, with chunks of 256 B at 100 Gb/s.

use std::hint::black_box;
use std::time::Instant;
use unrack_phy::Block;
use unrack_phy::edm::{Assembler, Body, Event, MemoryMessage};
use unrack_phy::port::{Receiver, Transmitter};
use unrack_protocol::edm::{Demand, GrantPolicy, Scheduler, SchedulerConfig};
use unrack_units::Time;

/// Blocks per second of 25 GbE: 25.78125 GBd / 66.
const LINE: f64 = 25.78125e9 / 66.0;
/// Number of blocks in one pass. A pass is short, so that some of the many passes are undisturbed on a machine that also does other work.
const BLOCKS: usize = 1 << 14;
const PASSES: usize = 2_000;

fn main() {
    // `cargo test` also runs benches, in order to verify that they run.
    let is_test = std::env::args().any(|word| word == "--test");
    let (blocks, passes) = if is_test { (1 << 12, 1) } else { (BLOCKS, PASSES) };
    println!("{:>10} {:>10} {:>14} {:>10}", "", "bytes", "M blocks/s", "of 25 GbE");
    for (least, most) in [(64, 64), (68, 68), (64, 127), (256, 256), (1514, 1514), (9014, 9014)] {
        codec(least, most, blocks, passes);
    }
    for bytes in [64, 256, 4096] {
        messages(bytes, blocks, passes);
    }
    println!("{:>10} {:>10} {:>14} {:>14}", "", "ports", "M grants/s", "k iterations/s");
    for ports in [16, 64, 144, 512] {
        scheduler(ports, if is_test { 100 } else { 400_000 });
    }
}

fn say(what: &str, bytes: impl std::fmt::Display, blocks: usize, seconds: f64) {
    let rate = blocks as f64 / seconds;
    println!("{what:>10} {bytes:>10} {:>14.1} {:>10.2}", rate / 1e6, rate / LINE);
}

/// Returns the duration of the fastest pass, in seconds.
fn best(passes: usize, mut pass: impl FnMut()) -> f64 {
    let timed = |_| {
        let start = Instant::now();
        pass();
        start.elapsed().as_secs_f64()
    };
    (0..passes).map(timed).fold(f64::INFINITY, f64::min)
}

/// Number of blocks that fit into the cache.
const CACHED: usize = 2_048;

/// Measures the conversion of frames of `least` to `most` bytes, including the FCS. If `least` and `most` differ, the lengths are random,
/// so that the processor cannot predict where frames end.
fn codec(least: usize, most: usize, blocks: usize, passes: usize) {
    let frame: Vec<u8> = (0..most - 4).map(|at| (at * 31) as u8).collect();
    let mut random = 1_u32;
    let lengths: Vec<usize> = std::iter::repeat_with(|| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        least - 4 + (random >> 16) as usize % (most - least + 1)
    })
    .take(1 << 12)
    .collect();
    let mut lengths = lengths.iter().cycle();
    let of = if least == most { most.to_string() } else { format!("{least}-{most}") };
    let (mut transmitter, mut line) = (Transmitter::default(), Vec::new());
    let (mut encoded, mut frames) = (0, 0);
    let seconds = best(passes, || {
        encoded = 0;
        while encoded < blocks {
            line.clear();
            // The decoder processes the line repeatedly. Each time that it starts again at the beginning, the descrambler outputs one wrong
            // block. Therefore the line begins with idle blocks, and ends with an idle block, which completes the last frame.
            transmitter.idle(2, &mut line);
            frames = 0;
            while line.len() < CACHED {
                transmitter.frame(&frame[..*lengths.next().expect("it never ends")], &mut line);
                frames += 1;
            }
            transmitter.idle(1, &mut line);
            encoded += black_box(&line).len();
        }
    });
    say("encode", &of, encoded, seconds);

    let mut good = 0;
    let (mut decoded, mut passed) = (0, 0);
    let seconds = best(passes, || {
        let mut receiver = Receiver::default();
        (good, decoded, passed) = (0, 0, 0);
        while decoded < blocks {
            receiver.handle(black_box(&line), |frame| good += usize::from(frame.map(black_box).is_ok()));
            decoded += line.len();
            passed += frames;
        }
    });
    assert_eq!(good, passed);
    say("decode", &of, decoded, seconds);
}

fn messages(bytes: usize, blocks: usize, passes: usize) {
    let message =
        MemoryMessage { node: 3, id: 5, body: Body::Response { last: true, data: vec![0x5a; bytes] } };
    let mut line: Vec<Block> = Vec::new();
    let mut passed = 0;
    let seconds = best(passes, || {
        passed = 0;
        while passed < blocks {
            line.clear();
            while line.len() < CACHED {
                black_box(&message).blocks(&mut line);
            }
            passed += black_box(&line).len();
        }
    });
    say("build", bytes, passed, seconds);

    let mut assembler = Assembler::default();
    let seconds = best(passes, || {
        passed = 0;
        while passed < blocks {
            assembler.handle_all(black_box(&line), |event| match event {
                Ok(Event::Message(message)) => black_box(message.body).into_data(),
                other => panic!("{other:?}"),
            });
            passed += line.len();
        }
    });
    say("parse", bytes, passed, seconds);
}

fn scheduler(ports: u32, grants: u64) {
    let chunk = 256;
    let mut scheduler = Scheduler::new(SchedulerConfig {
        ports,
        chunk,
        policy: GrantPolicy::Srpt,
        pairs_in_order: true,
        iteration: Time::from_ns(1),
        block: Time::from_ps(640),
        framing: Time::ZERO,
        control: Time::ZERO,
    });
    let mut random = 1_u32;
    for src in 0..ports {
        for dst in (0..ports).filter(|dst| *dst != src) {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let demand =
                Demand { src, dst, bytes: u64::from(64 + random % 60_000), token: 0, request: Time::ZERO };
            scheduler.handle_demand(Time::ZERO, demand);
        }
    }
    let (mut out, mut granted, mut iterations) = (Vec::new(), 0, 0);
    let mut now = Time::ZERO;
    let start = Instant::now();
    while granted < grants
        && let Some(at) = scheduler.poll_at()
    {
        now = now.max(at);
        scheduler.run(now, &mut out);
        iterations += 1;
        granted += out.len() as u64;
        // When a demand has been granted completely, a new demand replaces it, so that a demand of every pair always waits.
        for grant in out.drain(..).filter(|grant| grant.last) {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (src, dst) = (grant.src, grant.dst);
            let demand =
                Demand { src, dst, bytes: u64::from(64 + random % 60_000), token: 0, request: Time::ZERO };
            scheduler.handle_demand(now, demand);
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let rate = |count: u64| count as f64 / seconds;
    println!(
        "{:>10} {ports:>10} {:>14.2} {:>14.0}",
        "scheduler",
        rate(granted) / 1e6,
        rate(iterations) / 1e3
    );
}
