//! Configuration of a client.

use super::window::CallWindow;
use crate::wait::WaitPolicy;
use std::time::Duration;

/// Configuration of a client.
#[derive(Debug, Clone)]
pub struct Options {
    /// How a client waits for answers: by polling, by sleeping, or adaptively.
    pub waiting: WaitPolicy,
    /// Number of calls, in addition to the one that is waited for, that a connection may have in flight.
    pub window: CallWindow,
    /// Longest time that a call may take. `None`: as long as the server lives.
    pub deadline: Option<Duration>,
    /// Time without an answer after which the client sends a call again. The server runs the call only once.
    pub resend: Option<Duration>,
    /// Longest time that the service may take to accept the connection. Over TCP, also how long the client tries to
    /// reconnect after the connection broke.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            waiting: WaitPolicy::Adaptive,
            window: CallWindow::Fixed(16),
            deadline: None,
            resend: None,
            patience: Duration::from_secs(5),
        }
    }
}
