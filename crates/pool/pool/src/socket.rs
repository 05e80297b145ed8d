//! The socket at which a user's pool is served by default, and the users whom a program trusts there.
//!
//! All users may write to the folder of temporary files, so another user may have made the default folder first and may
//! serve a pool there. Therefore a program that connects to a default socket checks two things before it sends any
//! message: that no other user can have made the socket ([`check_folder`]), and that no other user serves it
//! ([`check_peer`]). A socket that the user names explicitly is not checked, because it may be another user's pool on
//! purpose.

use rustix::fd::AsFd;
use rustix::fs::Mode;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Returns `$XDG_RUNTIME_DIR/unrack/pool.sock`. Without that variable, returns `unrack-USER/pool.sock` in the folder of
/// temporary files.
pub fn default_socket() -> PathBuf {
    let folder =
        match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute()) {
            Some(runtime) => runtime.join("unrack"),
            None => std::env::temp_dir().join(format!("unrack-{}", own_number())),
        };
    folder.join("pool.sock")
}

fn own_number() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Reason why a default socket is not used.
#[derive(Debug, thiserror::Error)]
pub enum Untrusted {
    #[error(
        "the default place {} is not used: {} {why}; remove it, set XDG_RUNTIME_DIR to a folder of this user alone, or name a socket",
        socket.display(), part.display()
    )]
    Folder { socket: PathBuf, part: PathBuf, why: String },
    #[error(
        "the default place {} is not used: it is served by user {by} and not by this user, {us}; name the socket to use it all the same",
        socket.display()
    )]
    Peer { socket: PathBuf, by: u32, us: u32 },
    #[error("the default place {} cannot be checked: {error}", socket.display())]
    Unknown { socket: PathBuf, error: Error },
}

/// Checks that no other user can have put a socket into the default folder. This user must own the folder and be the
/// only one who can write to it, and no other user may be able to replace the folder, or a folder or link on the path
/// to it. Other folders, and a folder that does not exist, are not checked.
///
/// # Errors
/// The error names the part of the path that another user owns or can replace.
pub fn check_folder(socket: &Path) -> Result<(), Untrusted> {
    let Some(folder) = default_folder_of(socket) else { return Ok(()) };
    match find_fault(folder) {
        Ok(None) => Ok(()),
        Ok(Some((part, why))) => Err(Untrusted::Folder { socket: socket.into(), part, why }),
        // The folder does not exist, so no manager serves there.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Untrusted::Unknown { socket: socket.into(), error }),
    }
}

/// Finds a part of the path to the default folder, or the folder itself, that another user owns or can replace. Returns
/// the part and the reason.
fn find_fault(folder: &Path) -> std::io::Result<Option<(PathBuf, String)>> {
    let given = std::path::absolute(folder)?;
    let real = given.canonicalize()?;
    for part in [&given, &real].into_iter().flat_map(|way| way.ancestors().skip(1)) {
        if let Some(why) = why_not_on_the_way(&part.symlink_metadata()?) {
            return Ok(Some((part.into(), why)));
        }
    }
    let why = why_not_own(&given.symlink_metadata()?, Mode::WGRP | Mode::WOTH);
    Ok(why.map(|why| (given, why)))
}

/// Checks that this user or root serves the default socket that `connected` is connected to. Other sockets are not
/// checked.
///
/// # Errors
/// The error names the user who serves the socket.
pub fn check_peer(socket: &Path, connected: impl AsFd) -> Result<(), Untrusted> {
    if default_folder_of(socket).is_none() {
        return Ok(());
    }
    let unknown = |error| Untrusted::Unknown { socket: socket.into(), error: Error::from(error) };
    let by = rustix::net::sockopt::socket_peercred(connected).map_err(unknown)?.uid.as_raw();
    let us = own_number();
    let is_trusted = by == us || by == 0;
    if is_trusted { Ok(()) } else { Err(Untrusted::Peer { socket: socket.into(), by, us }) }
}

/// Returns the folder of a socket if that folder is the default one.
fn default_folder_of(socket: &Path) -> Option<&Path> {
    socket.parent().filter(|folder| default_socket().parent() == Some(folder))
}

/// Returns why a part of the path to the default folder is not safe: another user owns it, or can replace its contents.
fn why_not_on_the_way(found: &std::fs::Metadata) -> Option<String> {
    let owner = found.uid();
    if owner != own_number() && owner != 0 && !is_of_another_namespace(owner) {
        return Some(format!("belongs to user {owner}"));
    }
    let others_write = found.mode() & (Mode::WGRP | Mode::WOTH).bits() != 0;
    let is_sticky = found.mode() & Mode::SVTX.bits() != 0;
    (found.is_dir() && others_write && !is_sticky)
        .then(|| format!("can be written by other users (mode {:04o})", found.mode() & 0o7777))
}

/// Returns why a folder does not belong to this user, or gives other users one of these rights.
fn why_not_own(found: &std::fs::Metadata, rights: Mode) -> Option<String> {
    if !found.is_dir() || found.uid() != own_number() {
        let what = if found.is_dir() { "" } else { ", is no folder" };
        return Some(format!("is not a folder of this user alone: it belongs to user {}{what}", found.uid()));
    }
    (found.mode() & rights.bits() != 0).then(|| {
        format!(
            "is not a folder of this user alone: it has mode {:04o}, and 0700 is right",
            found.mode() & 0o7777
        )
    })
}

/// Returns whether a user number is the substitute for all users that are unknown in this user namespace, such as the
/// machine's root.
fn is_of_another_namespace(user: u32) -> bool {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let stand_in = std::fs::read_to_string("/proc/sys/kernel/overflowuid").ok();
    let known = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let is_known = known.lines().any(|line| {
        let parts: Vec<u64> = line.split_whitespace().filter_map(number).collect();
        matches!(parts[..], [first, _, count] if (first..first.saturating_add(count)).contains(&user.into()))
    });
    stand_in.and_then(|text| number(&text)) == Some(user.into()) && !known.is_empty() && !is_known
}

/// Makes the folder of the default socket, for this user alone. Returns whether the folder is new.
///
/// # Errors
/// If the folder cannot be made, or belongs to another user. The latter can happen because the parent folder may be
/// writable by all users.
pub fn make_folder(socket: &Path) -> std::io::Result<bool> {
    let Some(folder) = socket.parent() else { return Ok(false) };
    let made = match std::fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        made => made.is_ok(),
    };
    let found = std::fs::symlink_metadata(folder)?;
    if why_not_own(&found, Mode::RWXG | Mode::RWXO).is_some() {
        let text = format!("{} is not a folder of this user alone (mode 0700)", folder.display());
        return Err(Error::new(ErrorKind::PermissionDenied, text));
    }
    check_folder(socket).map_err(|error| Error::new(ErrorKind::PermissionDenied, error.to_string()))?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn set_mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_folder_that_others_may_enter_is_refused() {
        let outer = unrack_testing::TestFolder::new("socket");
        let folder = outer.join("inner");
        let socket = folder.join("pool.sock");
        assert!(make_folder(&socket).unwrap());
        assert!(!make_folder(&socket).expect("it is there already"));
        set_mode(&folder, 0o755);
        let refused = make_folder(&socket).map_err(|error| error.kind());
        assert_eq!(refused, Err(ErrorKind::PermissionDenied));
    }

    #[test]
    fn other_users_write_to_no_part_of_the_way() {
        let folder = unrack_testing::TestFolder::new("socket-way");
        let why = |mode| {
            set_mode(&folder, mode);
            why_not_on_the_way(&folder.symlink_metadata().unwrap())
        };
        assert_eq!([why(0o700), why(0o755), why(0o1777)], [None, None, None]);
        assert!(why(0o777).is_some_and(|why| why.contains("0777")));
        assert!(why(0o770).is_some());
        set_mode(&folder, 0o700);
        let found = folder.symlink_metadata().unwrap();
        assert_eq!(why_not_own(&found, Mode::WGRP | Mode::WOTH), None);
        let link = folder.join("link");
        std::os::unix::fs::symlink("/tmp", &link).unwrap();
        assert!(why_not_own(&link.symlink_metadata().unwrap(), Mode::WOTH).is_some(), "a link is no folder");
    }
}
