//! Requirements on the machine, checked before a program starts.

use crate::PagingError;
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use unrack_pager::{blocking, copies, reserved_region, sys};

const LIBRARY: &str = "libunrack_preload.so";
/// Environment variable with the path of the preload library, for when it is not near the executable.
pub const PRELOAD_VARIABLE: &str = "UNRACK_PRELOAD";
/// Environment variable with which tests make pagers copy pages on a kernel that can move them.
pub const COPY_VARIABLE: &str = "UNRACK_COPY_PAGES";

/// Checks that the machine can run programs with remote memory.
///
/// # Errors
/// [`PagingError::Lacking`]; its text explains how to meet the requirement.
pub(crate) fn check() -> Result<(), PagingError> {
    let page = rustix::param::page_size();
    if page != sys::PAGE {
        return Err(PagingError::Lacking(format!(
            "this kernel's pages have {page} bytes, but the pager needs pages of {}: boot a kernel with those",
            sys::PAGE
        )));
    }
    sys::Uffd::open(needed_features()).map_err(no_userfaultfd)?;
    check_address_space()?;
    match copies_pages() && !copies::are_possible() {
        true => Err(PagingError::Lacking(old_kernel("MREMAP_DONTUNMAP", "5.14"))),
        false => Ok(()),
    }
}

/// Returns whether pagers copy pages, because this kernel lacks `UFFDIO_MOVE`.
pub(crate) fn copies_pages() -> bool {
    static COPIES: OnceLock<bool> = OnceLock::new();
    *COPIES.get_or_init(|| {
        let is_forced = std::env::var_os(COPY_VARIABLE).is_some_and(|value| !value.is_empty());
        is_forced || matches!(sys::Uffd::open(blocking::FEATURES), Err(Errno::INVAL))
    })
}

fn needed_features() -> u64 {
    if copies_pages() { blocking::FEATURES_TO_COPY } else { blocking::FEATURES }
}

/// Returns what runs with remote memory lose on this machine because its kernel is older than Linux 6.8; `None` if they lose nothing.
pub fn lost_on_this_kernel() -> Option<&'static str> {
    copies_pages().then_some(
        "more slowly than from Linux 6.8 on, because this kernel cannot move pages (UFFDIO_MOVE), so that they are copied; \
         programs cannot open files with O_DIRECT or use io_uring",
    )
}

/// Checks that the kernel can move pages, which `what` needs.
pub(crate) fn check_moves(what: &str) -> Result<(), PagingError> {
    match copies_pages() {
        true => Err(PagingError::Lacking(format!(
            "{what} is not possible here: {}",
            old_kernel("UFFDIO_MOVE", "6.8")
        ))),
        false => Ok(()),
    }
}

/// Checks all requirements of a run with remote memory, of this machine and of this installation.
///
/// # Errors
/// [`PagingError::Lacking`]; its text explains how to meet the requirement.
pub fn check_machine() -> Result<(), PagingError> {
    check()?;
    preload_library().map(drop)
}

/// Checks the limit on address space. The pager reserves addresses when it starts, and the limit counts reserved addresses like used ones.
fn check_address_space() -> Result<(), PagingError> {
    match getrlimit(Resource::As).current {
        Some(limit) if limit < reserved_region::LEN as u64 => Err(PagingError::Lacking(format!(
            "the pager reserves {} GiB of address space, but the limit here is {} MiB: raise it, for example by \
             `ulimit -v unlimited`",
            reserved_region::LEN >> 30,
            limit >> 20
        ))),
        _ => Ok(()),
    }
}

/// Checks the additional requirements of borrowing memory of a running process (`--pid`).
///
/// # Errors
/// [`PagingError::Lacking`]; its text explains how to meet the requirement.
pub fn check_borrowing() -> Result<(), PagingError> {
    // The process may be using `O_DIRECT` or `io_uring` already, and a filter cannot be removed from it again.
    check_moves("--pid")
}

/// Checks the additional requirements of fast mode.
///
/// # Errors
/// [`PagingError::Lacking`]; its text explains how to meet the requirement.
#[cfg(target_arch = "x86_64")]
pub fn check_fast() -> Result<(), PagingError> {
    use unrack_pager::fast;
    check_moves("--fast")?;
    sys::Uffd::open(fast::FEATURES).map_err(no_userfaultfd)?;
    match fast::can_dispatch() {
        true => Ok(()),
        false => Err(PagingError::Lacking(old_kernel("Syscall User Dispatch (CONFIG_GENERIC_ENTRY)", "6.8"))),
    }
}

/// Always returns an error, because fast mode does not exist on this processor.
#[cfg(not(target_arch = "x86_64"))]
pub fn check_fast() -> Result<(), PagingError> {
    Err(PagingError::Lacking("fast mode needs x86-64: leave out --fast".into()))
}

fn no_userfaultfd(why: Errno) -> PagingError {
    PagingError::Lacking(match why {
        Errno::PERM | Errno::ACCESS => "no permission to use userfaultfd: as root, `sysctl \
             vm.unprivileged_userfaultfd=1` or give this user access to /dev/userfaultfd; in a container, \
             also allow the system call in its seccomp profile"
            .into(),
        Errno::INVAL => old_kernel("features of userfaultfd", "5.14"),
        Errno::NOSYS => old_kernel("userfaultfd (CONFIG_USERFAULTFD)", "5.14"),
        why => format!("userfaultfd cannot be used here: {why}"),
    })
}

fn old_kernel(lacks: &str, needed: &str) -> String {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy();
    format!("this kernel ({release}) lacks {lacks}: Linux {needed} or newer is needed")
}

/// Returns the path of the preload library: the file that the environment names, or else the one next to the executable or installed near
/// it.
pub(crate) fn preload_library() -> Result<PathBuf, PagingError> {
    if let Some(named) = std::env::var_os(PRELOAD_VARIABLE) {
        let named = PathBuf::from(named);
        return absolute(&named).ok_or_else(|| {
            PagingError::Lacking(format!("{PRELOAD_VARIABLE} names {}, which is no file", named.display()))
        });
    }
    let executable = std::env::current_exe().map_err(PagingError::failed("find this executable"))?;
    let folder = executable.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(LIBRARY), folder.join("../lib/unrack").join(LIBRARY)];
    places.iter().find_map(|place| absolute(place)).ok_or_else(|| {
        PagingError::Lacking(format!(
            "{LIBRARY} is neither in {} nor in {}: build the whole workspace, or name it in {PRELOAD_VARIABLE}",
            folder.display(),
            folder.join("../lib/unrack").display()
        ))
    })
}

fn absolute(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().filter(|path| path.is_file())
}
