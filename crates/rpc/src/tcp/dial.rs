//! Reaching a server, and being taken by it.

use super::hello::{Hello, SessionId, VERSION, Verdict, WELCOME_BYTES, Welcome};
use super::link::LINES;
use super::stream::Stream;
use crate::error::Error;
use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};
use unrack_pool::wire::Denied;

/// Where the server is, and who we are to it.
pub struct Server {
    pub address: String,
    pub service: String,
    pub session: SessionId,
    pub patience: Duration,
}

/// Why there is no connection.
pub enum Not {
    Reached(io::Error),
    Spoken,
    Refused(Welcome),
}

impl Server {
    pub fn name(&self) -> String {
        format!("{} at tcp://{}", self.service, self.address)
    }

    pub fn connect(&self, deadline: Instant) -> Result<(Arc<TcpStream>, Welcome), Not> {
        let mut last = io::Error::from(ErrorKind::NotFound);
        for address in self.address.to_socket_addrs().map_err(Not::Reached)? {
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            match TcpStream::connect_timeout(&address, left) {
                Ok(socket) => return self.greet(socket, deadline),
                Err(error) => last = error,
            }
        }
        Err(Not::Reached(last))
    }

    fn greet(&self, socket: TcpStream, deadline: Instant) -> Result<(Arc<TcpStream>, Welcome), Not> {
        let hello = Hello {
            version: VERSION,
            lines: LINES as u16,
            patience_ms: self.patience.as_millis().min(u32::MAX.into()) as u32,
            session: self.session,
            service: self.service.clone(),
        };
        let mut stream = Stream::new(Arc::new(socket)).map_err(Not::Reached)?;
        stream.write(&hello.to_bytes(), &[], deadline).map_err(Not::Reached)?;
        let mut bytes = [0; WELCOME_BYTES];
        stream.read(&mut bytes, deadline).map_err(Not::Reached)?;
        let welcome = Welcome::from_bytes(&bytes).ok_or(Not::Spoken)?;
        if welcome.version != VERSION || welcome.verdict != Verdict::Taken {
            return Err(Not::Refused(welcome));
        }
        let socket = stream.into_socket();
        socket.set_nonblocking(true).map_err(Not::Reached)?;
        Ok((socket, welcome))
    }
}

impl Not {
    pub fn error(self, server: &Server) -> Error {
        let peer = server.name();
        match self {
            Not::Reached(error) => Error::Connect { peer, error },
            Not::Spoken => Error::NotRpc { peer },
            Not::Refused(welcome) if welcome.version != VERSION => {
                Error::Version { peer, ours: VERSION, theirs: welcome.version }
            }
            Not::Refused(welcome) => match welcome.verdict {
                Verdict::NoService => {
                    unrack_pool::Error::Denied(Denied::NoService(server.service.clone())).into()
                }
                _ => Error::Lost { peer, why: self::why(welcome.verdict).into() },
            },
        }
    }

    /// Why a session cannot go on; `None`: it may, later.
    pub fn why(&self) -> Option<&'static str> {
        match self {
            Not::Reached(_) => None,
            Not::Refused(welcome) if welcome.verdict == Verdict::Busy => None,
            Not::Refused(welcome) => Some(why(welcome.verdict)),
            Not::Spoken => Some("it does not speak this protocol"),
        }
    }
}

fn why(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Busy => "it has all the connections that it takes",
        Verdict::NoSession => "it was started anew, or has given this client up",
        Verdict::NoService => "it serves something else now",
        Verdict::Taken | Verdict::WrongVersion | Verdict::Malformed => {
            "it does not take what this client says"
        }
    }
}
