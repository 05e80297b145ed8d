//! Random small networks and workloads, here and in the slow reference of `tests/reference`: every message
//! completes at the same picosecond.
//!
//! `UNRACK_DIFFERENTIAL_CASES` says how many cases for each fabric, `UNRACK_DIFFERENTIAL_SEED` which.

use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use unrack_protocol::tcp::Congestion;
use unrack_protocol::{dctcp, tcp};
use unrack_sim::fabric::edm::{EdmConfig, Order};
use unrack_sim::fabric::stream::Ethernet;
use unrack_sim::network::{Network, Star};
use unrack_sim::{FabricConfig, Setup, Work};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::{Kind, Message};

/// Fabrics that the reference knows.
const FABRICS: [&str; 4] = ["ideal", "edm", "tcp", "dctcp"];

/// What both sides are given.
struct Case {
    fabric: &'static str,
    star: Star,
    ethernet: Ethernet,
    initial_window: u32,
    min_rto: Time,
    mark_threshold: u64,
    messages: Vec<(Time, Message)>,
}

/// Numbers from a seed: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

impl Case {
    fn draw(fabric: &'static str, seed: u64) -> Case {
        let draw = &mut Draw(seed);
        let nodes = 2 + draw.below(5) as u32;
        let star = Star {
            nodes,
            rate: Rate::from_gbps(draw.one(if fabric == "edm" {
                &[25, 40, 100, 400]
            } else {
                &[10, 25, 40, 100, 400]
            })),
            propagation: Time::from_ps(draw.one(&[10_000, 313_131, 2_000_003])),
            switch_latency: Time::from_ps(draw.one(&[0, 400_000])),
        };
        let ethernet = Ethernet {
            mtu: Bytes::new(draw.one(&[256, 1500, 9000])),
            headers: true,
            // A few packets, or all that can come.
            buffer: Bytes::new(draw.one(&[20_000, 60_000, 1 << 40])),
            cut_through: draw.below(2) == 0,
        };
        let largest =
            draw.one(if fabric == "edm" { &[64, 1_000, 10_000] } else { &[3_000, 30_000, 200_000] });
        let span = draw.one(&[100_000, 1_000_000, 20_000_000, 200_000_000]);
        let mut messages: Vec<(Time, Message)> = (0..1 + draw.below(16))
            .map(|_| {
                let src = draw.below(u64::from(nodes)) as u32;
                let dst = (src + 1 + draw.below(u64::from(nodes - 1)) as u32) % nodes;
                let make = draw.one(&[Message::read, Message::write, Message::rmw, Message::flow]);
                (Time::from_ps(draw.below(span)), make(src, dst, 1 + draw.below(largest)))
            })
            .collect();
        messages.sort_by_key(|(at, _)| *at);
        Case {
            fabric,
            star,
            ethernet,
            initial_window: draw.one(&[1, 2, 10]),
            min_rto: Time::from_us(draw.one(&[50, 200, 5_000])),
            mark_threshold: draw.one(&[3_000, 15_000, 60_000]),
            messages,
        }
    }

    fn setup(&self) -> Setup {
        let (initial_window, min_rto) = (self.initial_window, self.min_rto);
        let fabric = match self.fabric {
            "tcp" => FabricConfig::Tcp(tcp::Params {
                congestion: Congestion::NewReno,
                initial_window,
                min_rto,
                ..tcp::Params::default()
            }),
            "dctcp" => FabricConfig::Dctcp(dctcp::Params {
                mark_threshold: Some(Bytes::new(self.mark_threshold)),
                initial_window,
                min_rto,
                ..dctcp::Params::default()
            }),
            "edm" => FabricConfig::Edm(EdmConfig { policy: Order::Srpt, ..EdmConfig::default() }),
            _ => FabricConfig::Ideal,
        };
        let (network, ethernet) = (Network::star(&self.star), self.ethernet);
        Setup { network, ethernet, fabric, seed: 1, time_limit: Time::MAX }
    }

    fn json(&self) -> Value {
        let message = |(at, message): &(Time, Message)| {
            let Message { src, dst, kind, request, bytes, .. } = *message;
            let kind: Kind = kind;
            json!({
                "at_ps": at.as_ps(), "src": src, "dst": dst, "kind": kind.name(), "request": request, "bytes": bytes,
            })
        };
        json!({
            "fabric": self.fabric,
            "nodes": self.star.nodes,
            "rate_bps": self.star.rate.as_bps(),
            "propagation_ps": self.star.propagation.as_ps(),
            "switch_latency_ps": self.star.switch_latency.as_ps(),
            "mtu": self.ethernet.mtu.get(),
            "buffer": self.ethernet.buffer.get(),
            "cut_through": self.ethernet.cut_through,
            "initial_window": self.initial_window,
            "min_rto_ps": self.min_rto.as_ps(),
            "mark_threshold": self.mark_threshold,
            "messages": self.messages.iter().map(message).collect::<Vec<_>>(),
        })
    }
}

/// What the reference makes of these cases; `None`, and a word why, if Python is not there.
fn reference(cases: &[Case]) -> Option<Vec<Vec<u64>>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/reference/run.py");
    let mut python = Command::new("python3");
    let started = python.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(why) => {
            eprintln!("skipped: python3 cannot be run ({why})");
            return None;
        }
    };
    let input = Value::Array(cases.iter().map(Case::json).collect()).to_string();
    // Python reads all before it writes anything.
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "the reference failed");
    Some(serde_json::from_slice(&output.stdout).expect("a list of lists of times"))
}

fn from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|why| panic!("{name}: {why}")))
}

#[test]
fn every_message_completes_when_the_reference_says() {
    let cases = from_environment("UNRACK_DIFFERENTIAL_CASES", 100);
    let seed = from_environment("UNRACK_DIFFERENTIAL_SEED", 1);
    let numbers = || (0..cases).map(|n| seed.wrapping_mul(1 << 32) + n);
    let all: Vec<Case> = FABRICS.iter().flat_map(|fabric| numbers().map(|n| Case::draw(fabric, n))).collect();
    let Some(expected) = reference(&all) else { return };
    let mut wrong = Vec::new();
    for (case, expected) in all.iter().zip(&expected) {
        let done = case.setup().run(&Work::listed(case.messages.clone()), |_| {}).unwrap();
        let got = done.run.outcomes.iter().map(|outcome| outcome.completion().expect("finished").as_ps());
        let got: Vec<u64> = got.collect();
        if got != *expected {
            wrong.push(format!("{}\n  here      {got:?}\n  reference {expected:?}", case.json()));
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases differ, the first:\n{}", wrong.len(), all.len(), wrong[0]);
}
