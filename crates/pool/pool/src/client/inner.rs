//! Part of a connection that channels, services, segments and arenas keep alive.

use super::connect::PATIENCE;
use super::error::Error;
use super::link::{Link, Replied};
use crate::wire::{Reply, Request};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Connection to the manager, with the thread that reads from it.
pub(crate) struct ManagerConnection {
    pub(super) link: Arc<Link>,
    /// Thread that reads the manager's messages.
    pub(super) reader: Mutex<Option<JoinHandle<()>>>,
}

impl ManagerConnection {
    /// Sends a request to the manager, and waits for a reply without descriptors.
    pub(super) fn ask(&self, request: Request) -> Result<Reply, Error> {
        match self.link.ask(&request, &[], PATIENCE)? {
            Replied::Plain(reply) => Ok(reply),
            _ => Err(Error::ManagerGone),
        }
    }
}

impl Drop for ManagerConnection {
    fn drop(&mut self) {
        let reader = self.reader.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if !self.link.maker().is_here() {
            // The thread exists only in the parent process, so a child cannot join it.
            return std::mem::forget(reader);
        }
        self.link.close();
        if let Some(reader) = reader {
            let _ = reader.join();
        }
    }
}
