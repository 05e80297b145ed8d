//! Errors of keys, each with its remedy.

use crate::Fingerprint;
use std::io;
use std::path::{Path, PathBuf};

/// Reason why a key cannot be used, or a connection cannot be encrypted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: {why}", path.display())]
    File { path: PathBuf, why: io::Error },
    #[error("there is no key in {0}: `unrack keys make {0}` makes one", folder.display())]
    NoKey { folder: PathBuf },
    #[error("there is a key in {} already: it is left as it is", folder.display())]
    KeyIsThere { folder: PathBuf },
    #[error("{0} can be {what} by others: `chmod {mode} {0}` makes it yours alone", path.display())]
    NotPrivate { path: PathBuf, what: &'static str, mode: &'static str },
    #[error("{} belongs to another user: keys are to be your own", path.display())]
    Foreign { path: PathBuf },
    #[error("{}: {why}", path.display())]
    Malformed { path: PathBuf, why: String },
    #[error(
        "{address} is beyond this machine, where connections need keys: {cause}; or say {insecure} to go without \
         encryption and proof of who is there"
    )]
    Needed { address: String, cause: Box<Error>, insecure: &'static str },
    #[error(
        "its key {theirs} is not trusted here: if that is the right one, `unrack keys trust {theirs} --keys {}`",
        folder.display()
    )]
    Untrusted { theirs: Fingerprint, folder: PathBuf },
    #[error("it does not trust this key: `unrack keys trust {ours}` there, if it is to")]
    Refused { ours: Fingerprint },
    #[error("it does not speak TLS: it listens without keys, or is something else ({0})")]
    NotTls(String),
    #[error(transparent)]
    Broken(#[from] io::Error),
}

impl Error {
    /// Returns a function that turns an error of input or output into one of the file `path`.
    pub(crate) fn file(path: &Path) -> impl Fn(io::Error) -> Error {
        let path = path.to_path_buf();
        move |why| Error::File { path: path.clone(), why }
    }

    /// True if trying again later may succeed: the connection broke, and the peer refused nothing.
    pub fn may_pass(&self) -> bool {
        matches!(self, Error::Broken(_))
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        match error {
            Error::Broken(error) => error,
            error => io::Error::new(io::ErrorKind::PermissionDenied, error.to_string()),
        }
    }
}
