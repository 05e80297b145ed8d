//! Connecting to a server, including the exchange of hello and welcome.

use super::Scheme;
use super::hello::{Hello, HelloVerdict, SessionId, VERSION, WELCOME_BYTES, Welcome};
use super::link::LINES;
use super::stream::Stream;
use crate::error::Error;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};
use unrack_keys::Wire;
use unrack_pool::wire::Denied;

/// Address of a server, and the identity of this client at the server.
pub(super) struct Server {
    /// Host and port, with their scheme.
    pub address: String,
    pub service: String,
    pub session: SessionId,
    pub patience: Duration,
}

/// Reason why a connection attempt failed.
pub(super) enum Not {
    Reached(io::Error),
    /// The keys are missing, or do not match.
    Keys(unrack_keys::Error),
    Spoken,
    Refused(Welcome),
}

impl Server {
    /// Returns the service's name and address, for messages.
    pub(super) fn name(&self) -> String {
        format!("{} at {}", self.service, self.address)
    }

    /// Connects to the server and sends the hello. Returns the connection and the server's welcome.
    pub(super) fn connect(&self, deadline: Instant) -> Result<(Wire, Welcome), Not> {
        let (scheme, place) = Scheme::split(&self.address);
        let mut last = io::Error::from(ErrorKind::NotFound);
        for address in place.to_socket_addrs().map_err(Not::Reached)? {
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            match TcpStream::connect_timeout(&address, left) {
                Ok(socket) => return self.greet(scheme, address, socket, deadline),
                Err(error) => last = error,
            }
        }
        Err(Not::Reached(last))
    }

    fn greet(
        &self,
        scheme: Scheme,
        address: SocketAddr,
        socket: TcpStream,
        deadline: Instant,
    ) -> Result<(Wire, Welcome), Not> {
        let hello = Hello {
            version: VERSION,
            lines: LINES as u16,
            patience_ms: self.patience.as_millis().min(u32::MAX.into()) as u32,
            session: self.session,
            service: self.service.clone(),
        };
        let keys = scheme.keys_for(address).map_err(Not::Keys)?;
        let socket = Stream::prepare(socket).map_err(Not::Reached)?;
        let wire = Wire::connect(socket, keys.as_ref(), deadline).map_err(Not::Keys)?;
        let mut stream = Stream::new(wire);
        stream.write(&hello.to_bytes(), &[], deadline).map_err(Not::Reached)?;
        let mut bytes = [0; WELCOME_BYTES];
        stream.read(&mut bytes, deadline).map_err(Not::Reached)?;
        let welcome = Welcome::from_bytes(&bytes).ok_or(Not::Spoken)?;
        if welcome.version != VERSION || welcome.verdict != HelloVerdict::Taken {
            return Err(Not::Refused(welcome));
        }
        let wire = stream.into_wire();
        wire.socket().set_nonblocking(true).map_err(Not::Reached)?;
        Ok((wire, welcome))
    }
}

impl Not {
    /// Returns the error to report.
    pub(super) fn error(self, server: &Server) -> Error {
        let peer = server.name();
        match self {
            Not::Reached(error) => Error::Connect { peer, error },
            Not::Keys(error) => Error::Connect { peer, error: error.into() },
            Not::Spoken => Error::NotRpc { peer },
            Not::Refused(welcome) if welcome.version != VERSION => {
                Error::Version { peer, ours: VERSION, theirs: welcome.version }
            }
            Not::Refused(welcome) => match welcome.verdict {
                HelloVerdict::NoService => {
                    unrack_pool::Error::Denied(Denied::NoService(server.service.clone())).into()
                }
                _ => Error::Lost { peer, why: self::why(&welcome) },
            },
        }
    }

    /// Returns why the session is lost for good; `None` if a later attempt to reconnect may succeed.
    pub(super) fn why(&self) -> Option<String> {
        match self {
            Not::Reached(_) => None,
            Not::Keys(error) if error.may_pass() => None,
            Not::Keys(error) => Some(error.to_string()),
            Not::Refused(welcome)
                if matches!(welcome.verdict, HelloVerdict::Busy | HelloVerdict::NoMemory) =>
            {
                None
            }
            Not::Refused(welcome) => Some(why(welcome)),
            Not::Spoken => Some("it does not speak this protocol".into()),
        }
    }
}

fn why(welcome: &Welcome) -> String {
    match welcome.verdict {
        HelloVerdict::Busy => busy(welcome),
        HelloVerdict::NoSession => "it was restarted, or has given this client up".into(),
        HelloVerdict::NoService => "it now serves another service".into(),
        HelloVerdict::NoMemory => {
            "it has reached its limit of memory for this client, or for all: try again later".into()
        }
        HelloVerdict::KeysNeeded => {
            "it requires a trusted key: connect to tls://host:port, with a key made by `unrack keys make`"
                .into()
        }
        HelloVerdict::Taken | HelloVerdict::WrongVersion | HelloVerdict::Malformed => {
            "it does not accept this client's greeting".into()
        }
    }
}

fn busy(welcome: &Welcome) -> String {
    let backlog = welcome.backlog();
    match backlog.connections {
        0 => "the last call of this client still runs there".into(),
        all => format!(
            "all {all} connections that it accepts are in use, {} of them from here: try again later",
            backlog.of_peer
        ),
    }
}
