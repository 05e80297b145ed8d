//! Sliding window (HydraRPC §5.5): the number of calls that a connection has in flight.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Number of calls that may be in flight in addition to the one that is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallWindow {
    /// A constant number. With 0, each call waits for the answer of the one before.
    Fixed(u16),
    /// A number that adapts: the client doubles or halves it as long as this makes calls faster, up to 255.
    Adaptive,
}

/// Largest adaptive window.
const MOST: u32 = 255;
/// Number of completed calls between two adaptations of the window.
const EPOCH: u32 = 512;

/// Window of one connection, and the number of calls in it.
pub(super) struct WindowLimit {
    window: CallWindow,
    now: AtomicU32,
    under_way: AtomicU32,
    climb: std::sync::Mutex<Climb>,
    calls: AtomicU32,
}

/// State of the adaptive window, which keeps growing or keeps shrinking as long as the rate of calls improves.
struct Climb {
    since: Option<Instant>,
    rate: f64,
    up: bool,
}

impl WindowLimit {
    /// Makes a window without calls.
    pub(super) fn new(window: CallWindow) -> WindowLimit {
        let now = match window {
            CallWindow::Fixed(window) => u32::from(window),
            CallWindow::Adaptive => 4,
        };
        WindowLimit {
            window,
            now: AtomicU32::new(now),
            under_way: AtomicU32::new(0),
            climb: std::sync::Mutex::new(Climb { since: None, rate: 0.0, up: true }),
            calls: AtomicU32::new(0),
        }
    }

    /// Counts one more call if the window has room for it, and returns whether it had. This needs no atomic exchange,
    /// because the caller has locked the calls.
    #[inline]
    pub(super) fn enter(&self) -> bool {
        let under_way = self.under_way.load(Ordering::Relaxed);
        if under_way > self.now.load(Ordering::Relaxed) {
            return false;
        }
        self.under_way.store(under_way + 1, Ordering::Relaxed);
        true
    }

    /// Removes a call from the count because it is done or given up. The caller has locked the calls.
    #[inline]
    pub(super) fn leave(&self) {
        self.under_way.store(self.under_way.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        if self.window == CallWindow::Adaptive {
            let calls = self.calls.load(Ordering::Relaxed).wrapping_add(1);
            self.calls.store(calls, Ordering::Relaxed);
            if calls.is_multiple_of(EPOCH) {
                self.adapt(Instant::now());
            }
        }
    }

    /// Ends an epoch: the window keeps its direction if this epoch was faster than the one before, and otherwise
    /// reverses it.
    fn adapt(&self, now: Instant) {
        let Ok(mut climb) = self.climb.try_lock() else { return };
        if let Some(since) = climb.since {
            let rate = f64::from(EPOCH) / (now - since).as_secs_f64().max(1e-9);
            // Rates within two percent count as equal, and then the smaller window is preferred.
            let better = if climb.up { rate > climb.rate * 1.02 } else { rate > climb.rate * 0.98 };
            climb.up = climb.up == better;
            climb.rate = rate;
            let window = self.now.load(Ordering::Relaxed);
            let next = if climb.up { (window * 2).min(MOST) } else { (window / 2).max(1) };
            self.now.store(next, Ordering::Relaxed);
        }
        climb.since = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A server gains from up to 16 calls in flight, so the window settles near that number.
    #[test]
    fn an_adaptive_window_finds_what_helps() {
        let limit = WindowLimit::new(CallWindow::Adaptive);
        let mut now = Instant::now();
        let mut seen = Vec::new();
        for _ in 0..60 {
            let window = limit.now.load(Ordering::Relaxed);
            now += Duration::from_micros(u64::from(5120 / window.min(16)));
            limit.adapt(now);
            seen.push(window);
        }
        let late = &seen[20..];
        assert!(late.iter().all(|&window| (4..=64).contains(&window)), "{seen:?}");
        let mean = late.iter().sum::<u32>() as f64 / late.len() as f64;
        assert!((8.0..=32.0).contains(&mean), "{seen:?}");
    }
}
