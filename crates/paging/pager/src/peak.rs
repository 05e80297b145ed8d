//! Local memory over time: its peak, and how long it was above the limit.
//!
//! A run may exceed its limit for a moment, because pages come back before a fork and because a program may touch many pages before the
//! pager looks again. Therefore the peak counts only pages that were local throughout a [`WINDOW_NS`], and the time above the limit is
//! summed separately.

use crate::control::{ControlHead, ProcessSlot};
use core::sync::atomic::Ordering::Relaxed;

/// Time in ns for which pages have to be local to count for the peak.
const WINDOW_NS: u64 = 50_000_000;
/// Inverse of the share of the limit by which the run may exceed it, because processes take turns in making room: one in four.
const PART: u64 = 4;
/// Number of pages above the limit that each process may keep in any case.
const KEPT: u64 = 64;

/// Local memory of the run over time, as seen by one of its processes.
#[derive(Default)]
pub(crate) struct Peak {
    /// End of the current window (monotonic ns); 0 before the first window.
    until_ns: u64,
    /// Minimum of local pages in the current window.
    least: u64,
    /// Time of the latest call (ns).
    seen_ns: u64,
}

impl Peak {
    /// Records the number of pages of the run that are local now.
    pub(crate) fn note(&mut self, control: &ControlHead, slot: &ProcessSlot, local: u64, now_ns: u64) {
        if let Some(kept) = self.window(local, now_ns) {
            control.counts.peak_local.fetch_max(kept, Relaxed);
        }
        let since_ns = if self.seen_ns == 0 { 0 } else { now_ns.saturating_sub(self.seen_ns) };
        self.seen_ns = now_ns;
        let limit = control.settings.limit_pages.load(Relaxed);
        let mut slots = control.live_slots();
        // Only one process counts the time, because otherwise it would be counted several times.
        let is_first = slots.next().is_some_and(|first| core::ptr::eq(first, slot));
        let most = limit.saturating_add(limit / PART + KEPT * (1 + slots.count() as u64));
        if is_first && local > most {
            control.counts.over_ns.fetch_add(since_ns, Relaxed);
        }
    }

    /// Returns the minimum of local pages in a window if the window has ended.
    fn window(&mut self, local: u64, now_ns: u64) -> Option<u64> {
        self.least = if self.until_ns == 0 { local } else { self.least.min(local) };
        if now_ns < self.until_ns {
            return None;
        }
        let (kept, was_open) = (self.least, self.until_ns != 0);
        (self.until_ns, self.least) = (now_ns + WINDOW_NS, local);
        was_open.then_some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Returns the peak and the time above a limit of 1000 pages, after calls at these times with these numbers of pages.
    fn seen(looks: &[(u64, u64)]) -> (u64, u64) {
        // SAFETY: all fields are atomics, for which zero is valid.
        let control: Box<ControlHead> = unsafe { Box::new(std::mem::zeroed()) };
        control.settings.limit_pages.store(1000, Relaxed);
        let slots = [1, 2].map(|pid| &control.slots[control.take_slot(pid).unwrap()]);
        let mut peaks = [Peak::default(), Peak::default()];
        for (at_ms, local) in looks {
            for (peak, slot) in peaks.iter_mut().zip(slots) {
                peak.note(&control, slot, *local, at_ms * MS);
            }
        }
        (control.counts.peak_local.load(Relaxed), control.counts.over_ns.load(Relaxed) / MS)
    }

    #[test]
    fn what_was_local_for_a_moment_is_no_peak() {
        assert_eq!(seen(&[(1, 10), (2, 900), (3, 20), (60, 800)]).0, 10);
        assert_eq!(seen(&[(1, 10), (60, 800), (70, 800), (200, 900)]).0, 800, "what stays counts");
    }

    #[test]
    fn time_above_the_limit_is_counted_once_for_all_processes() {
        assert_eq!(seen(&[(1, 10), (60, 800), (70, 1000)]).1, 0);
        assert_eq!(seen(&[(1, 10), (60, 1378), (70, 1378), (80, 1379), (95, 1500), (99, 5)]).1, 25);
    }
}
