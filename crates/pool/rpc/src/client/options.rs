//! Configuration of a client.

use super::window::Window;
use crate::wait::Waiting;
use std::time::Duration;

/// Configuration of a client.
#[derive(Debug, Clone)]
pub struct Options {
    /// Trade-off while waiting for answers.
    pub waiting: Waiting,
    /// Number of calls beyond one that a connection has under way.
    pub window: Window,
    /// Longest time that a call may take. `None`: as long as the server lives.
    pub deadline: Option<Duration>,
    /// Time without an answer after which a call is sent again. The server runs it only once.
    pub resend: Option<Duration>,
    /// Longest time that the service may take to accept the connection; over TCP, also the time to try again when
    /// it broke.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            waiting: Waiting::Adaptive,
            window: Window::Fixed(16),
            deadline: None,
            resend: None,
            patience: Duration::from_secs(5),
        }
    }
}
