//! Wakeups of processes, by names that cannot be guessed. A process that reads a name in an area which it shares may signal the wakeup.

use rustix::fd::{AsRawFd, OwnedFd};
use std::collections::BTreeMap;

/// Maximum number of wakeups of one process.
pub(crate) const MOST: usize = 64;

/// Wakeups by name, each with the process that owns it.
#[derive(Default)]
pub(super) struct BrokerWakeups {
    all: BTreeMap<u64, (OwnedFd, u32)>,
}

impl BrokerWakeups {
    /// Gives a wakeup a name, which is an even number other than zero. Returns `None` if it is not an `eventfd`, or if the process has too
    /// many.
    pub(super) fn name(&mut self, wakeup: OwnedFd, process: u32) -> Option<u64> {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", wakeup.as_raw_fd())).ok()?;
        if link.to_str() != Some("anon_inode:[eventfd]") {
            return None;
        }
        if self.all.values().filter(|(_, of)| *of == process).count() >= MOST {
            return None;
        }
        let name = random()? & !1;
        if name == 0 || name > u64::MAX / 2 || self.all.contains_key(&name) {
            return self.name(wakeup, process);
        }
        self.all.insert(name, (wakeup, process));
        Some(name)
    }

    /// Returns the wakeup with a name.
    pub(super) fn get(&self, name: u64) -> Option<&OwnedFd> {
        self.all.get(&name).map(|(wakeup, _)| wakeup)
    }

    /// Forgets the wakeups of processes that have ended.
    pub(super) fn sweep(&mut self, mut lives: impl FnMut(u32) -> bool) {
        self.all.retain(|_, (_, process)| lives(*process));
    }
}

fn random() -> Option<u64> {
    let mut bytes = [0; 8];
    // SAFETY: a local buffer.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    (got == 8).then(|| u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    fn wakeup() -> OwnedFd {
        eventfd(0, EventfdFlags::NONBLOCK).expect("an eventfd")
    }

    #[test]
    fn a_wakeup_has_a_name_until_its_process_ends() {
        let mut wakeups = BrokerWakeups::default();
        let (one, other) = (wakeups.name(wakeup(), 1), wakeups.name(wakeup(), 2));
        let (one, other) = (one.expect("a name"), other.expect("a name"));
        assert!(one != other && one & 1 == 0 && other & 1 == 0);
        wakeups.sweep(|process| process == 2);
        assert!(wakeups.get(one).is_none() && wakeups.get(other).is_some());
    }

    #[test]
    fn what_could_block_a_signal_is_refused() {
        let (pipe, _other) = std::io::pipe().expect("a pipe");
        assert_eq!(BrokerWakeups::default().name(pipe.into(), 1), None);
    }

    #[test]
    fn a_process_has_so_many_wakeups_and_no_more() {
        let mut wakeups = BrokerWakeups::default();
        for _ in 0..MOST {
            assert!(wakeups.name(wakeup(), 1).is_some());
        }
        assert!(wakeups.name(wakeup(), 1).is_none() && wakeups.name(wakeup(), 2).is_some());
    }
}
