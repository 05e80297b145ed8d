//! Flow control: how many frames of a stream may be in flight.

use crate::wire::WINDOW;
use std::sync::{Condvar, Mutex, PoisonError};

/// Credits of one stream: frames that may still be sent.
#[derive(Debug)]
pub(crate) struct StreamCredits {
    /// Number of credits; `None` once the stream has no receiver any more.
    left: Mutex<Option<usize>>,
    changed: Condvar,
}

impl Default for StreamCredits {
    fn default() -> StreamCredits {
        StreamCredits { left: Mutex::new(Some(WINDOW)), changed: Condvar::new() }
    }
}

impl StreamCredits {
    /// Waits until a frame may be sent. Returns `false` if the stream has no receiver any more.
    pub(crate) fn take(&self) -> bool {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match &mut *left {
                None => return false,
                Some(0) => left = self.changed.wait(left).unwrap_or_else(PoisonError::into_inner),
                Some(several) => {
                    *several -= 1;
                    return true;
                }
            }
        }
    }

    /// Notes that a frame was passed on. Returns `false` if no frame was in flight.
    pub(crate) fn give(&self) -> bool {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.notify_all();
        match &mut *left {
            Some(WINDOW) => false,
            Some(fewer) => {
                *fewer += 1;
                true
            }
            None => true,
        }
    }

    /// Notes that the stream has no receiver any more.
    pub(crate) fn close(&self) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_of_frames_may_be_on_its_way() {
        let credits = StreamCredits::default();
        (0..WINDOW).for_each(|_| assert!(credits.take()));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| credits.take());
            assert!(credits.give());
            assert!(waits.join().unwrap());
        });
        (0..WINDOW).for_each(|_| assert!(credits.give()));
        assert!(!credits.give(), "none is on its way");
        credits.close();
        assert!(!credits.take() && credits.give());
    }
}
