//! Bells of processes, by names that nobody can guess: whoever reads a name in an area that he shares may ring.

use rustix::fd::{AsRawFd, OwnedFd};
use std::collections::BTreeMap;

/// Most bells of one process.
pub(crate) const MOST: usize = 64;

/// Bells, and the process that each is of.
#[derive(Default)]
pub(super) struct Bells {
    all: BTreeMap<u64, (OwnedFd, u32)>,
}

impl Bells {
    /// Gives a bell a name: an even number, not zero. Nothing if it is no `eventfd`, or the process has too many.
    pub(super) fn name(&mut self, bell: OwnedFd, process: u32) -> Option<u64> {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", bell.as_raw_fd())).ok()?;
        if link.to_str() != Some("anon_inode:[eventfd]") {
            return None;
        }
        if self.all.values().filter(|(_, of)| *of == process).count() >= MOST {
            return None;
        }
        let name = random()? & !1;
        if name == 0 || name > u64::MAX / 2 || self.all.contains_key(&name) {
            return self.name(bell, process);
        }
        self.all.insert(name, (bell, process));
        Some(name)
    }

    /// Returns the bell of a name.
    pub(super) fn get(&self, name: u64) -> Option<&OwnedFd> {
        self.all.get(&name).map(|(bell, _)| bell)
    }

    /// Forgets the bells of processes that have ended.
    pub(super) fn sweep(&mut self, mut lives: impl FnMut(u32) -> bool) {
        self.all.retain(|_, (_, process)| lives(*process));
    }
}

fn random() -> Option<u64> {
    let mut bytes = [0; 8];
    // SAFETY: bytes of our own.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    (got == 8).then(|| u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    fn bell() -> OwnedFd {
        eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd")
    }

    #[test]
    fn a_bell_has_a_name_until_its_process_ends() {
        let mut bells = Bells::default();
        let (one, other) = (bells.name(bell(), 1), bells.name(bell(), 2));
        let (one, other) = (one.expect("a name"), other.expect("a name"));
        assert!(one != other && one & 1 == 0 && other & 1 == 0);
        bells.sweep(|process| process == 2);
        assert!(bells.get(one).is_none() && bells.get(other).is_some());
    }

    #[test]
    fn what_could_hold_a_ringer_up_is_refused() {
        let (pipe, _other) = std::io::pipe().expect("a pipe");
        assert_eq!(Bells::default().name(pipe.into(), 1), None);
    }

    #[test]
    fn a_process_has_so_many_bells_and_no_more() {
        let mut bells = Bells::default();
        for _ in 0..MOST {
            assert!(bells.name(bell(), 1).is_some());
        }
        assert!(bells.name(bell(), 1).is_none() && bells.name(bell(), 2).is_some());
    }
}
