//! Compares ways to call one process from another on the same machine.
//!
//! A call carries `size` bytes to the server and `size` bytes back. The client fills the request, the server reads all of
//! it and fills the answer, and the client reads all of the answer. This work is the same for every peer, and it is done
//! in place if the peer supports that. Client and server are two processes on two cores. Each round measures all peers in
//! turn, so that other work on the machine disturbs all of them alike; the figure of a cell is the median of its rounds.

mod capnp_uds;
#[allow(clippy::all, reason = "made by build.rs")]
mod echo_capnp {
    include!(concat!(env!("OUT_DIR"), "/echo_capnp.rs"));
}
mod floor;
mod grpc;
mod harness;
mod iceoryx;
mod kernel;
mod ours;
mod report;
mod work;

use harness::{Cell, Peer};
use std::process::ExitCode;

const SIZES: [usize; 6] = [64, 512, 4 << 10, 32 << 10, 256 << 10, 2 << 20];

fn peers() -> Vec<Box<dyn Peer>> {
    vec![
        Box::new(ours::Unrack::COHERENT),
        Box::new(ours::Unrack::INCOHERENT),
        Box::new(ours::Unrack::SLEEPING),
        Box::new(floor::FixedSlots::PLAIN),
        Box::new(floor::FixedSlots::DEMOTING),
        Box::new(floor::FixedSlots::FLUSHING),
        Box::new(kernel::Futex),
        Box::new(kernel::Pipe),
        Box::new(kernel::Unix),
        Box::new(kernel::Tcp),
        Box::new(iceoryx::RequestResponse),
        Box::new(grpc::Tonic),
        Box::new(capnp_uds::CapnProto),
    ]
}

const USAGE: &str = "\
usage: unrack-rpc-peers [--json] [--rounds N] [--only NAME[,NAME]] [--size BYTES]

Measures a call between two processes on two pinned cores: ours, the floor, and the peers.

  --json         one JSON object instead of tables
  --rounds N     how often every peer is measured (default 5)
  --only NAMES   peers whose name contains one of these; `unrack` is always measured
  --size BYTES   one size instead of all";

struct Options {
    json: bool,
    rounds: usize,
    only: Vec<String>,
    sizes: Vec<usize>,
}

fn options() -> Result<Options, String> {
    let mut options = Options { json: false, rounds: 5, only: Vec::new(), sizes: SIZES.to_vec() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => options.json = true,
            "--rounds" => {
                let given = arguments.next().unwrap_or_default();
                options.rounds = given
                    .parse()
                    .ok()
                    .filter(|&rounds| rounds > 0)
                    .ok_or(format!("--rounds {given:?}: a number from 1 on is needed"))?;
            }
            "--only" => {
                let given = arguments.next().ok_or("--only: names of peers are needed")?;
                options.only = given.split(',').map(str::to_owned).collect();
            }
            "--size" => {
                let given = arguments.next().unwrap_or_default();
                let size = given.parse().ok().filter(|size| SIZES.contains(size));
                options.sizes = vec![size.ok_or(format!("--size {given:?}: one of {SIZES:?} is needed"))?];
            }
            _ => return Err(format!("{argument}: unknown\n{USAGE}")),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    if let Some(role) = harness::Served::from_arguments() {
        return harness::serve(&peers(), role);
    }
    let options = match options() {
        Ok(options) => options,
        Err(wrong) => {
            eprintln!("unrack-rpc-peers: {wrong}");
            return ExitCode::from(2);
        }
    };
    if harness::cores() < 2 {
        eprintln!("unrack-rpc-peers: two cores are needed, one for the client and one for the server");
        return ExitCode::from(3);
    }
    let peers: Vec<_> = peers()
        .into_iter()
        .filter(|peer| {
            options.only.is_empty()
                || peer.name().starts_with("unrack")
                || options.only.iter().any(|name| peer.name().contains(name.as_str()))
        })
        .collect();
    let mut cells: Vec<Cell> = Vec::new();
    for round in 0..options.rounds {
        for peer in &peers {
            for &size in &options.sizes {
                if !peer.takes(size) {
                    continue;
                }
                let measured = match harness::measure(peer.as_ref(), size) {
                    Ok(measured) => measured,
                    Err(wrong) => {
                        eprintln!("unrack-rpc-peers: {} at {size} B: {wrong}", peer.name());
                        return ExitCode::FAILURE;
                    }
                };
                Cell::add(&mut cells, peer.name(), size, measured);
            }
            eprintln!("round {} of {}: {}", round + 1, options.rounds, peer.name());
        }
    }
    if options.json {
        println!("{}", report::json(&cells));
    } else {
        report::tables(&cells, &options.sizes);
    }
    ExitCode::SUCCESS
}
