//! Two links over one device, looked at in any order, with restarts, silence, and processes that take their time.

use super::*;
use crate::cache_control::MemoryKind;
use crate::hosts::{HostIdentity, Superblock, write_records};
use crate::interleave::Interleave;
use crate::space::MappedSpace;
use proptest::prelude::*;
use rustix::fd::AsFd;
use std::sync::Arc;

const SILENCE: Duration = Duration::from_secs(1);

/// One host, as the test knows it.
struct Side {
    member: Membership,
    link: Link,
    peer: Host,
    up: bool,
    /// True while processes of this host have something of a run that is over.
    has_old: bool,
    /// Number of runs that were up here.
    runs: u64,
    sent: u64,
    /// Run of the other side and number of its last message that came.
    heard: (u64, u64),
}

fn superblock() -> Superblock {
    let set = Interleave::new(1, 4096).unwrap();
    Superblock {
        hosts: 2,
        sections: 4,
        set,
        device: 0,
        queue_bytes: 4096,
        pool: 1,
        mode: MemoryKind::Coherent,
    }
}

fn member(file: &rustix::fd::OwnedFd, mode: MemoryKind, host: u32) -> Membership {
    let mut space = MappedSpace::reserve(8 << 20, mode).unwrap();
    space.map_devices(&[file.as_fd()], superblock().set).unwrap();
    let identity = HostIdentity { host, name: format!("host{host}"), boot: 1, socket: 1 };
    Membership::join(Arc::new(space), &superblock(), &identity, false, SILENCE).unwrap()
}

fn device() -> rustix::fd::OwnedFd {
    let file = rustix::fs::memfd_create("unrack-device", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&file, 8 << 20).unwrap();
    let mut space = MappedSpace::reserve(8 << 20, MemoryKind::Coherent).unwrap();
    space.map_devices(&[file.as_fd()], superblock().set).unwrap();
    write_records(&space, &superblock()).unwrap();
    file
}

impl Side {
    fn new(file: &rustix::fd::OwnedFd, mode: MemoryKind, host: u32) -> Side {
        let member = member(file, mode, host);
        let peer = 1 - host as Host;
        let link = Link::new(&member, peer);
        Side { member, link, peer, up: false, has_old: false, runs: 0, sent: 0, heard: (0, 0) }
    }

    /// Begins anew, as a manager does that was killed. Its processes go on.
    fn restart(&mut self) {
        self.link = Link::new(&self.member, self.peer);
        self.has_old |= self.up;
        self.up = false;
    }

    /// Looks once. Returns whether the other side was confirmed to have nothing old.
    fn look(&mut self, now: Instant) -> bool {
        let mut confirmed = false;
        let is_clean = !self.has_old;
        for happened in self.link.look(&self.member, now, SILENCE, || is_clean) {
            match happened {
                Happened::Up => {
                    assert!(!self.up && !self.has_old, "up while something old is left here");
                    (self.up, self.runs, self.sent) = (true, self.runs + 1, 0);
                }
                Happened::Down => {
                    assert!(self.up, "down twice");
                    (self.up, self.has_old) = (false, true);
                }
                Happened::Confirmed => confirmed = true,
                Happened::Message(bytes) => {
                    assert!(self.up);
                    let [run, number] =
                        [0, 8].map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()));
                    let next = if run == self.heard.0 { self.heard.1 + 1 } else { 0 };
                    assert!(run >= self.heard.0, "a message of a run that is over");
                    assert_eq!(number, next, "a message is lost, or doubled");
                    assert!(bytes[16..].iter().all(|byte| *byte == number as u8));
                    self.heard = (run, number);
                }
            }
        }
        confirmed
    }

    fn send(&mut self, bytes: usize) {
        if self.up && self.link.has_room() {
            let mut message = self.runs.to_le_bytes().to_vec();
            message.extend(self.sent.to_le_bytes());
            message.resize(16 + bytes, self.sent as u8);
            self.link.send(&self.member, &message);
            self.sent += 1;
        }
    }
}

fn pass(mode: MemoryKind, steps: Vec<(usize, u8, u16)>) {
    let file = device();
    let mut sides = [Side::new(&file, mode, 0), Side::new(&file, mode, 1)];
    let mut now = Instant::now();
    let step = |sides: &mut [Side; 2], now: &mut Instant, (at, what, much): (usize, u8, u16)| match what {
        0..=5 => {
            sides[at].member.beat(*now);
            if sides[at].look(*now) {
                assert!(!sides[1 - at].has_old, "confirmed while the other's processes have something old");
            }
        }
        6..=8 => sides[at].send(usize::from(much) % (MOST_MESSAGE - 16)),
        // What a process had is gone.
        9 | 10 => sides[at].has_old = false,
        11 => sides[at].restart(),
        12 => *now += SILENCE / 2,
        _ => *now += Duration::from_millis(60),
    };
    for one in steps {
        step(&mut sides, &mut now, one);
    }
    // Once processes have let go, and both look, the link comes up.
    for _ in 0..12 {
        now += Duration::from_millis(60);
        for at in 0..2 {
            step(&mut sides, &mut now, (at, 9, 0));
            step(&mut sides, &mut now, (at, 0, 0));
        }
    }
    assert!(sides.iter().all(|side| side.up && side.link.is_up()), "the link does not come up");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn runs_of_a_link_do_not_mix(steps in prop::collection::vec((0usize..2, 0u8..16, any::<u16>()), 0..250)) {
        pass(MemoryKind::Coherent, steps);
    }

    #[test]
    fn nor_in_memory_that_is_not_coherent(
        steps in prop::collection::vec((0usize..2, 0u8..16, any::<u16>()), 0..250)
    ) {
        pass(MemoryKind::Model, steps);
    }
}
