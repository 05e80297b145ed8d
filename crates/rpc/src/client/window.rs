//! The sliding window (HydraRPC §5.5): how many calls a connection has under way.

use super::calls::Calls;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Calls that may be under way besides the one that is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// 0: each call waits for the one before.
    Fixed(u16),
    /// As many as make calls faster: doubled or halved while that helps, up to 255.
    Adaptive,
}

const MOST: u32 = 255;
/// Calls between two looks at the clock.
const EPOCH: u32 = 512;

/// The window of one connection, and how full it is.
pub struct Limit {
    window: Window,
    now: AtomicU32,
    under_way: AtomicU32,
    climb: std::sync::Mutex<Climb>,
    calls: AtomicU32,
}

/// Where the adaptive window came from: it goes on in a direction as long as that helps.
struct Climb {
    since: Option<Instant>,
    rate: f64,
    up: bool,
}

impl Limit {
    pub fn new(window: Window) -> Limit {
        let now = match window {
            Window::Fixed(window) => u32::from(window),
            Window::Adaptive => 4,
        };
        Limit {
            window,
            now: AtomicU32::new(now),
            under_way: AtomicU32::new(0),
            climb: std::sync::Mutex::new(Climb { since: None, rate: 0.0, up: true }),
            calls: AtomicU32::new(0),
        }
    }

    /// Counts one more call in, if the window has room for it. Counting is done with the calls locked, and is no
    /// exchange therefore.
    #[inline]
    pub fn enter(&self, _: &mut Calls) -> bool {
        let under_way = self.under_way.load(Ordering::Relaxed);
        if under_way > self.now.load(Ordering::Relaxed) {
            return false;
        }
        self.under_way.store(under_way + 1, Ordering::Relaxed);
        true
    }

    /// A call is done, or given up.
    #[inline]
    pub fn leave(&self, _: &mut Calls) {
        self.under_way.store(self.under_way.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        if self.window == Window::Adaptive {
            let calls = self.calls.load(Ordering::Relaxed).wrapping_add(1);
            self.calls.store(calls, Ordering::Relaxed);
            if calls.is_multiple_of(EPOCH) {
                self.adapt(Instant::now());
            }
        }
    }

    /// An epoch is over: further in the same direction if it was faster than the one before, else back.
    fn adapt(&self, now: Instant) {
        let Ok(mut climb) = self.climb.try_lock() else { return };
        if let Some(since) = climb.since {
            let rate = f64::from(EPOCH) / (now - since).as_secs_f64().max(1e-9);
            // Within two hundredths it is the same, and the smaller window is as good.
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

    /// A server that gains from up to 16 calls under way: the window comes to be about that.
    #[test]
    fn an_adaptive_window_finds_what_helps() {
        let limit = Limit::new(Window::Adaptive);
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
