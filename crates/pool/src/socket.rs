//! The socket at which a user's pool is served by default.

use rustix::fs::Mode;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Returns `$XDG_RUNTIME_DIR/unrack/pool.sock`; without that variable, `unrack-USER/pool.sock` in the folder of
/// temporary files.
pub fn default_socket() -> PathBuf {
    let folder =
        match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute()) {
            Some(runtime) => runtime.join("unrack"),
            None => std::env::temp_dir().join(format!("unrack-{}", rustix::process::getuid().as_raw())),
        };
    folder.join("pool.sock")
}

/// Makes the folder of the default socket, for this user alone. Returns whether it is new.
///
/// # Errors
/// If it cannot be made, or belongs to another user: in a folder that all may write to, others may have come
/// first.
pub fn make_folder(socket: &Path) -> std::io::Result<bool> {
    let Some(folder) = socket.parent() else { return Ok(false) };
    let made = match std::fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        made => made.is_ok(),
    };
    let found = std::fs::symlink_metadata(folder)?;
    let others = (Mode::RWXG | Mode::RWXO).bits();
    if !found.is_dir() || found.uid() != rustix::process::getuid().as_raw() || found.mode() & others != 0 {
        let text = format!("{} is not a folder of this user alone (mode 0700)", folder.display());
        return Err(Error::new(ErrorKind::PermissionDenied, text));
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_that_others_may_enter_is_refused() {
        let outer = unrack_testing::Folder::new("socket");
        let folder = outer.join("inner");
        let socket = folder.join("pool.sock");
        assert!(make_folder(&socket).unwrap());
        assert!(!make_folder(&socket).expect("it is there already"));
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
        let refused = make_folder(&socket).map_err(|error| error.kind());
        assert_eq!(refused, Err(ErrorKind::PermissionDenied));
    }
}
