//! Errors of the benchmark.

use rustix::io::Errno;
use std::path::PathBuf;
use unrack_rpc::view::OutOfRange;

/// Reason why calls could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("two cores are needed: one for the client, one for the server")]
    OneCore,
    #[error("cannot keep to a core: {0}")]
    Core(Errno),
    #[error("cannot make a folder in {} (see TMPDIR): {why}", .parent.display())]
    Folder { parent: PathBuf, why: std::io::Error },
    #[error("cannot start the server: {0}")]
    Start(std::io::Error),
    /// The server's process ended after it printed the reason on stderr. `status` is its exit status, if it had one.
    #[error("the server did not start: see above")]
    Server { status: Option<i32> },
    #[error(transparent)]
    Pool(#[from] unrack_pool::manager::Error),
    #[error(transparent)]
    Call(#[from] unrack_rpc::Error),
    #[error(transparent)]
    Answer(#[from] OutOfRange),
    #[error("an answer is different: {what}; see `unrack rpc check --help`")]
    Different { what: String },
}
