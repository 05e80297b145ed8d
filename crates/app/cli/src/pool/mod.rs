//! `unrack pool`: memory that processes share by reference.

mod fence;
mod format;
mod ls;
mod serve;

use crate::failure::CommandFailure;
use std::io::ErrorKind;
use std::process::ExitCode;
use unrack_pool::hosts::CannotJoin;
use unrack_pool::manager::Error as ManagerError;
use unrack_pool::wire::Denied;

pub(crate) const EXAMPLES: &str = "\
Examples:
  unrack pool serve --capacity 4GiB           for programs of this user, until SIGINT or SIGTERM
  unrack pool serve --per-client 25%          no program may have more than a quarter of it
  install -d -m 700 /dev/shm/rack && unrack pool serve --backing /dev/shm/rack
                                              segments are files in that folder (tmpfs, hugetlbfs)
  unrack pool serve --backing /dev/dax0.0 --memory incoherent --capacity 16GiB
                                              memory that other hosts write too: lines are flushed
  unrack pool format /dev/dax0.0 --hosts 2    a device that two hosts share: once, on either of them
  unrack pool serve --device /dev/dax0.0 --host 0
                                              on one host; on the other, --host 1
  unrack pool fence 1                         host 1 has ended: what it had is free
  unrack pool ls                              what there is, who owns it, how full it is
  unrack pool ls --json

Without --socket, the pool is at $XDG_RUNTIME_DIR/unrack/pool.sock; without that variable, at unrack-USER/pool.sock in \
the folder of temporary files, where USER is the user's number. Programs that name no pool look there, too.

If the manager is killed, start it again with the same options: programs continue meanwhile, and the new manager \
takes over their memory. Nothing has to be deleted by hand.";

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Owns memory and hands it out to the programs that connect
    Serve(serve::Args),
    /// Prepares devices for hosts that share them
    Format(format::Args),
    /// Declares that a host is dead, which frees its sections
    Fence(fence::Args),
    /// Lists the contents of a pool
    Ls(ls::Args),
}

/// Runs `unrack pool`.
pub(crate) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    match args.verb {
        Verb::Serve(args) => serve::main(args),
        Verb::Format(args) => format::main(args),
        Verb::Fence(args) => fence::main(args),
        Verb::Ls(args) => ls::main(args),
    }
}

impl From<ManagerError> for CommandFailure {
    fn from(error: ManagerError) -> CommandFailure {
        let text = error.to_string();
        match error {
            ManagerError::Capacity(_)
            | ManagerError::QueueBytes(_)
            | ManagerError::Region
            | ManagerError::PerClient(_)
            | ManagerError::OneUser { .. }
            | ManagerError::Folder { .. }
            | ManagerError::Devices(_)
            | ManagerError::Host(CannotJoin::NoSuchHost(_)) => CommandFailure::Usage(text),
            ManagerError::Lacking(_) | ManagerError::NoRoom { .. } => CommandFailure::Lacking(text),
            ManagerError::Listen { error, .. } | ManagerError::Ledger { error, .. } => match error.kind() {
                ErrorKind::InvalidFilename | ErrorKind::InvalidInput => CommandFailure::Usage(text),
                _ => CommandFailure::Lacking(format!(
                    "{text}: give --socket in a folder that you may write to"
                )),
            },
            _ => CommandFailure::Failed(text),
        }
    }
}

impl From<unrack_pool::Error> for CommandFailure {
    fn from(error: unrack_pool::Error) -> CommandFailure {
        match error {
            unrack_pool::Error::Denied(Denied::Version { .. }) => CommandFailure::Lacking(error.to_string()),
            error => CommandFailure::Failed(error.to_string()),
        }
    }
}
