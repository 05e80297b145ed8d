//! Memory that a program needs (its footprint).

use crate::{PagingError, proc};
use unrack_record::Warning;
use unrack_units::Bytes;

/// Bytes of shared memory that are never a reason to refuse a program, because every program has some.
const LITTLE: u64 = 16 << 20;
/// Bytes of private memory that must stay local but are too few for a warning.
const LITTLE_KEPT: u64 = 2 << 20;

/// Memory that a program needs at its peak, in bytes, over all its processes together. Memory that several processes share counts once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Footprint {
    /// Private memory that can be made remote.
    pub anonymous: u64,
    /// Private memory that must stay local, for example changed pages of mapped files.
    pub kept: u64,
    /// Shared memory, which must stay local too.
    pub shared: u64,
}

impl Footprint {
    /// Returns the bytes that can be made remote.
    pub fn bytes(self) -> Bytes {
        Bytes::new(self.anonymous)
    }

    /// Returns the private memory that processes have now. A page that several of them share counts once. If the page tables of a process
    /// may not be read, all its pages count as its own.
    pub(crate) fn distinct(members: &[u32]) -> Footprint {
        if let [one] = members {
            return Footprint::alone(*one);
        }
        let (mut sum, mut largest) = (Footprint::default(), 0);
        for pid in members {
            let private = proc::private_memory(*pid);
            let whole = private.map_or_else(
                || Footprint::alone(*pid),
                |private| Footprint {
                    anonymous: private.proportional_anonymous,
                    kept: private.proportional_kept,
                    shared: 0,
                },
            );
            sum.anonymous = sum.anonymous.saturating_add(whole.anonymous);
            sum.kept = sum.kept.saturating_add(whole.kept);
            largest = largest.max(private.map_or(0, |private| private.anonymous));
        }
        // If a process ended meanwhile, its proportional part of shared pages is missing. The sum is then raised to the full memory of the
        // largest process.
        Footprint { anonymous: sum.anonymous.max(largest), ..sum }
    }

    fn alone(pid: u32) -> Footprint {
        let kept = proc::kept_bytes(pid).unwrap_or(0);
        let all = proc::anonymous_bytes(pid).unwrap_or(0);
        Footprint { anonymous: all.saturating_sub(kept), kept, shared: 0 }
    }

    /// Returns the shared memory that processes have now.
    pub(crate) fn shared_by(members: &[u32]) -> Footprint {
        let sum = |bytes: fn(u32) -> Option<u64>| members.iter().filter_map(|pid| bytes(*pid)).sum::<u64>();
        let all = sum(proc::shared_bytes);
        // The proportional sizes cost more to read, so they are read only if there is enough shared memory to matter.
        let part = |pid| proc::proportional_shared_bytes(pid).or_else(|| proc::shared_bytes(pid));
        let shared = if all > LITTLE { sum(part) } else { all };
        Footprint { shared, ..Footprint::default() }
    }

    /// Returns the warning that much private memory stays local independently of any limit.
    pub fn kept_warning(self) -> Option<Warning> {
        let text = format!(
            "{:.0} MiB more of private memory stays local: what the program has changed of files that it maps, or may \
             execute, cannot be made remote",
            mib(self.kept)
        );
        (self.kept > LITTLE_KEPT.max(self.anonymous / 10)).then(|| Warning::new("kept", text))
    }

    /// Raises each part to that of `other`, if the part of `other` is larger.
    pub(crate) fn keep_larger(&mut self, other: Footprint) {
        self.anonymous = self.anonymous.max(other.anonymous);
        self.kept = self.kept.max(other.kept);
        self.shared = self.shared.max(other.shared);
    }

    /// Checks that at least half of the memory can be made remote.
    ///
    /// # Errors
    /// [`PagingError::Lacking`] for a program whose memory is mostly shared.
    pub fn check(self) -> Result<(), PagingError> {
        if self.shared <= LITTLE || self.shared <= self.anonymous {
            return Ok(());
        }
        Err(PagingError::Lacking(format!(
            "more than half of this program's memory is shared memory ({:.0} MiB, and {:.0} MiB private), which \
             cannot be made remote: let it use private memory, for example by fewer worker processes or a smaller \
             shared buffer",
            mib(self.shared),
            mib(self.anonymous)
        )))
    }
}

pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / (1 << 20) as f64
}

/// Result of a native run that is remembered for later runs.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Weighing {
    #[serde(flatten)]
    pub footprint: Footprint,
    pub wall_s: f64,
    /// True if other work disturbed the run. The time is then not that of an idle machine, but the memory is valid.
    #[serde(default)]
    pub is_disturbed: bool,
}

impl Weighing {
    /// Returns the native run time, unless other work disturbed it.
    pub fn native_s(&self) -> Option<f64> {
        (!self.is_disturbed).then_some(self.wall_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mostly_shared_memory_is_refused() {
        let footprint = |anonymous: u64, shared: u64| Footprint {
            anonymous: anonymous << 20,
            kept: 0,
            shared: shared << 20,
        };
        assert!(footprint(100, 90).check().is_ok());
        assert!(footprint(1, 10).check().is_ok(), "little");
        let why = footprint(10, 100).check().unwrap_err();
        assert!(
            matches!(&why, PagingError::Lacking(text) if text.contains("shared memory (100 MiB")),
            "{why}"
        );
    }
}
