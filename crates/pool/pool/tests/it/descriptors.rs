//! A process and a manager without descriptors left: a process of its own, since the limit is per process.

use crate::common::Pool;
use rustix::process::{Resource, Rlimit};
use std::process::Command;
use unrack_pool::wire::Denied;
use unrack_pool::{Client, Error};

/// Both refuse requests, neither spins nor breaks, and all goes on when there are descriptors again.
#[test]
fn descriptors_run_out() {
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "descriptors::inside", "--ignored", "--nocapture", "--test-threads=1"])
        .status()
        .unwrap();
    assert!(done.success(), "{done}");
}

#[test]
#[ignore = "runs in a process of its own"]
fn inside() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let pool = Pool::new(|_| {});
    let client = pool.client("one");
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    rustix::process::setrlimit(Resource::Nofile, Rlimit { current: Some(open + 9), ..limit }).unwrap();
    let mut held = Vec::new();
    let refused = loop {
        match client.lease(1) {
            Ok(segment) => held.push(segment),
            Err(error) => break error,
        }
    };
    let late = Client::connect_as(pool.manager.socket(), "late").map(drop);
    rustix::process::setrlimit(Resource::Nofile, limit).unwrap();
    assert!(matches!(refused, Error::Denied(Denied::Memory(_))), "{refused}");
    assert!(late.is_err());
    assert!(held.len() >= 2);
    drop(held);
    let later = Client::connect_as(pool.manager.socket(), "later").expect("there are descriptors again");
    assert_eq!(later.list().unwrap(), client.list().unwrap());
    drop(client.lease(32).expect("nothing was lost"));
}
