//! Client of a rack of virtual machines: other processes reach the rack through its state folder.

use crate::guest::CONSOLE;
use crate::request::{HostChange, RackStatus, Reply, Request};
use crate::scenario::GuestRack;
use std::io::BufReader;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use unrack_live::{Error, RackFiles, RackFolder};

/// The folder of a rack that is running or was running.
#[derive(Debug)]
pub struct GuestRackState(RackFolder);

static FILES: RackFiles = RackFiles {
    scenario: "guests.json",
    socket: "guests.sock",
    log: "guests.log",
    others: Some(CONSOLE),
    patience: Duration::from_secs(20),
};

impl GuestRackState {
    /// Finds the rack of virtual machines in this folder, whether it is running or not; `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Usage`] if others may write to the folder.
    pub fn find(folder: &Path) -> Result<Option<GuestRackState>, Error> {
        Ok(RackFolder::find(folder, &FILES)?.map(GuestRackState))
    }

    /// Removes the files of a rack whose processes were killed. Returns whether a rack is up or being built in the folder.
    ///
    /// # Errors
    /// Fails if others may write to the folder, or a file cannot be removed.
    pub fn sweep(folder: &Path) -> Result<bool, Error> {
        RackFolder::sweep(folder, &FILES)
    }

    /// Claims the folder for a rack; see [`RackFolder::claim`].
    ///
    /// # Errors
    /// [`Error::Usage`] if the folder has a rack already, or others may write to it.
    pub fn claim(folder: &Path, rack: &GuestRack) -> Result<GuestRackState, Error> {
        let text = serde_json::to_string(rack).map_err(|why| Error::Broken(why.to_string()))?;
        RackFolder::claim(folder, &FILES, &text)?.map(GuestRackState).ok_or_else(|| {
            let folder = folder.display();
            Error::Usage(format!(
                "a rack is up in {folder} already: take it down first (`unrack rack down`), or give another --state"
            ))
        })
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// Returns the path of the log, which has the error output of the rack's process.
    pub fn log(&self) -> PathBuf {
        self.0.log()
    }

    /// Creates the socket of the rack's process.
    pub(crate) fn listen(&self) -> Result<UnixListener, Error> {
        self.0.listen()
    }

    /// Returns whether the rack's folder still exists.
    pub(crate) fn is_there(&self) -> bool {
        self.0.is_there()
    }

    /// Reads the scenario that the rack was built from.
    ///
    /// # Errors
    /// [`Error::File`] if the scenario cannot be read; [`Error::Usage`] if it differs from the format that `claim` writes.
    pub(crate) fn scenario(&self) -> Result<GuestRack, Error> {
        let path = self.0.scenario();
        let text = std::fs::read_to_string(&path).map_err(|why| Error::File { path: path.clone(), why })?;
        serde_json::from_str(&text).map_err(|why| {
            Error::Usage(format!("{} is not what `up` wrote ({why}): take the rack down", path.display()))
        })
    }

    /// Returns the state of all hosts.
    ///
    /// # Errors
    /// [`Error::Broken`] if the rack's process does not answer.
    pub fn status(&self) -> Result<RackStatus, Error> {
        match self.ask(&Request::List)?.1 {
            Reply::Hosts(status) => Ok(*status),
            other => Err(self.unexpected(other)),
        }
    }

    /// Kills, stops, continues or boots a host, and waits until that is done.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such host, or its state does not allow the change; [`Error::Broken`] if it does not boot.
    pub fn change(&self, host: &str, change: HostChange) -> Result<(), Error> {
        match self.ask(&Request::Change { host: host.into(), change })?.1 {
            Reply::Done => Ok(()),
            other => Err(self.unexpected(other)),
        }
    }

    /// Opens the stream for a program that is to run on a host.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no such host, or it is not up.
    pub(crate) fn open(&self, host: &str) -> Result<BufReader<UnixStream>, Error> {
        match self.ask(&Request::Exec { host: host.into() })? {
            (stream, Reply::Done) => Ok(stream),
            (_, other) => Err(self.unexpected(other)),
        }
    }

    /// Ends the rack, waits until its processes have ended, and removes its files. Returns whether the rack was running. A process that
    /// does not end in time is killed.
    ///
    /// # Errors
    /// Fails if files cannot be removed, or if the rack is being built.
    pub fn down(self) -> Result<bool, Error> {
        self.0.down(line(&Request::Leave)?)
    }

    /// Removes the files of a rack whose processes have ended, and the folder.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        self.0.remove()
    }

    /// Sends a request. Returns the stream, positioned after the reply, and the reply.
    fn ask(&self, request: &Request) -> Result<(BufReader<UnixStream>, Reply), Error> {
        let (answer, stream) = self.0.ask(line(request)?)?;
        if answer.is_empty() {
            return Err(self.0.is_gone("it ended before it answered"));
        }
        let reply = serde_json::from_str(&answer)
            .map_err(|why| self.0.is_gone(&std::io::Error::from(why).to_string()))?;
        Ok((stream, reply))
    }

    fn unexpected(&self, reply: Reply) -> Error {
        match reply {
            Reply::Refused(why) => Error::Usage(why),
            Reply::Failed(why) => Error::Broken(why),
            Reply::Done | Reply::Hosts(_) => self.0.is_gone("its reply is of another request"),
        }
    }
}

fn line(request: &Request) -> Result<String, Error> {
    serde_json::to_string(request).map_err(|why| Error::Broken(why.to_string()))
}
