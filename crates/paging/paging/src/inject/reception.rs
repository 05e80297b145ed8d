//! Reception socket of a run. Processes of the run ask there to be traced when they are about to become, or to start, a program into which
//! no library can be preloaded (`preload/src/programs.rs`).

use super::Injector;
use super::guest::GuestThread;
use crate::PagingError;
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, shutdown,
    socket_with,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use unrack_pager::attached::DOOR_NAME;

/// Backlog of the socket: number of processes that may wait. Each waits for microseconds.
const WAITING: i32 = 64;

/// The reception socket, open until this value is dropped.
pub(crate) struct Reception {
    socket: Arc<OwnedFd>,
    path: PathBuf,
}

impl Reception {
    /// Opens the socket under its fixed name in the folder of the control file.
    ///
    /// # Errors
    /// [`PagingError::Failed`] if no socket can be made at this path.
    pub(crate) fn open(control: &Path) -> Result<Reception, PagingError> {
        let path = control.with_file_name(DOOR_NAME);
        let cannot = || PagingError::failed::<rustix::io::Errno>(format!("open {}", path.display()));
        let address = SocketAddrUnix::new(&path).map_err(cannot())?;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(cannot())?;
        bind(&socket, &address).map_err(cannot())?;
        listen(&socket, WAITING).map_err(cannot())?;
        let socket = Arc::new(socket);
        let (door, control) = (socket.clone(), control.to_path_buf());
        std::thread::Builder::new()
            .name("reception".into())
            .spawn(move || receive(&door, &control))
            .map_err(PagingError::failed("start the thread that waits for processes to trace"))?;
        Ok(Reception { socket, path })
    }
}

fn receive(door: &OwnedFd, control: &Path) {
    while let Ok(connection) = accept_with(door.as_fd(), SocketFlags::CLOEXEC) {
        let Some(guest) = GuestThread::from_question(connection) else { continue };
        if guest.is_traced() {
            guest.meet_its_tracer();
        } else {
            // If tracing fails, the process runs with all its memory local, and the report of the run says so.
            let _ = Injector::admit(control, guest);
        }
    }
}

impl Drop for Reception {
    fn drop(&mut self) {
        // Wakes the thread that waits in `accept`.
        let _ = shutdown(&*self.socket, Shutdown::Both);
        let _ = std::fs::remove_file(&self.path);
    }
}
