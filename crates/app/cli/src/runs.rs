//! `unrack __runs`: makes runs of a program for another process, such as a Python interpreter; see [`unrack_compare::serve_runs`].

use crate::failure::CommandFailure;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use unrack_compare::{RUNS_VERB, serve_runs};

/// Makes runs until the peer closes the socket, which is this process's standard output.
pub(crate) fn main() -> Result<ExitCode, CommandFailure> {
    let socket = std::io::stdout().as_fd().try_clone_to_owned().map(UnixStream::from);
    let socket = socket.ok().filter(|socket| socket.peer_addr().is_ok());
    let socket =
        socket.ok_or_else(|| CommandFailure::Usage(format!("{RUNS_VERB} is for libraries of unrack")))?;
    serve_runs(socket)?;
    Ok(ExitCode::SUCCESS)
}
