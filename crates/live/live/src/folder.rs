//! State folders. The files in a state folder are trusted, and write access to it is permission to send requests. Therefore only its user
//! may write to it.

use crate::Error;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

/// Creates a folder of mode 0700, or uses an existing one.
///
/// # Errors
/// Fails if the folder cannot be created, or [`check`] rejects it.
pub fn claim(folder: &Path) -> Result<(), Error> {
    let file = |why| Error::File { path: folder.to_path_buf(), why };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(file)?;
    check(folder)
}

/// Checks that a folder can be trusted. A missing folder passes.
///
/// # Errors
/// [`Error::Usage`] if the folder belongs to another user, is a symbolic link, or is writable by others. For example, another user may have
/// created it first in a shared folder such as /tmp.
pub fn check(folder: &Path) -> Result<(), Error> {
    let found = match std::fs::symlink_metadata(folder) {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(()),
        found => found.map_err(|why| Error::File { path: folder.to_path_buf(), why })?,
    };
    let is_ours = found.uid() == rustix::process::geteuid().as_raw();
    match found.is_dir() && is_ours && found.mode() & 0o022 == 0 {
        true => Ok(()),
        false => Err(Error::Usage(format!(
            "{} is not a folder of this user that others may not write to (mode 0700): remove it, or name another with --state",
            folder.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, remove_dir, set_permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let folder = std::env::temp_dir().join(format!("unrack-state-{}", std::process::id()));
        check(&folder).expect("there is none");
        claim(&folder).unwrap();
        assert_eq!(std::fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        claim(&folder).expect("it is there already");
        set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(claim(&folder), Err(Error::Usage(_))));
        set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        check(&folder).expect("others may look");
        let link = folder.with_extension("link");
        symlink(&folder, &link).unwrap();
        assert!(matches!(check(&link), Err(Error::Usage(_))), "a link leads wherever its owner likes");
        std::fs::remove_file(link).unwrap();
        remove_dir(folder).unwrap();
    }
}
