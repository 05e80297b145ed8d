//! TCP connection, encrypted or plain.
//!
//! Reads never wait for writes, and writes never wait for reads. On a nonblocking socket, each proceeds as far as possible without
//! blocking. On a blocking socket, the caller's timeouts apply.

use crate::tls::{NotTrusted, no_name};
use crate::{Error, Fingerprint, Keys};
use rustls::{AlertDescription, CertificateError, ClientConnection, Connection, ServerConnection};
use std::io::{self, BufReader, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A TCP connection, encrypted or plain. Other threads may share its socket, to shut it down.
pub struct Wire {
    socket: Arc<TcpStream>,
    secret: Option<Box<Secret>>,
}

/// State of an encrypted connection.
struct Secret {
    tls: Connection,
    /// Received bytes that are not decrypted yet. Without this buffer, rustls would read only 4 KiB at a time.
    incoming: BufReader<Socket>,
    keys: Arc<Keys>,
    peer: Option<Fingerprint>,
    /// Number of decrypted bytes that the caller has not read yet.
    unread: usize,
}

struct Socket(Arc<TcpStream>);

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self.0).read(into)
    }
}

/// Maximum bytes that are read from a socket at once.
const INCOMING: usize = 64 << 10;
/// Longest time for which a refused peer may read the reason.
const FAREWELL: Duration = Duration::from_millis(500);
/// First byte that every TLS client sends.
const HANDSHAKE: u8 = 0x16;

impl Wire {
    /// Makes a connection without encryption.
    pub fn plain(socket: Arc<TcpStream>) -> Wire {
        Wire { socket, secret: None }
    }

    /// Establishes a connection as the client. With keys, this proves the client's own key and checks the server's key, until `deadline`.
    /// The socket must be blocking, with a timeout after which the deadline is checked.
    ///
    /// # Errors
    /// If the server's key is not trusted, the server does not speak TLS, the connection breaks, or the deadline passes. If the server does
    /// not trust the client's key, only the first [`Wire::read`] reports it.
    pub fn connect(
        socket: Arc<TcpStream>,
        keys: Option<&Arc<Keys>>,
        deadline: Instant,
    ) -> Result<Wire, Error> {
        let Some(keys) = keys else { return Ok(Wire::plain(socket)) };
        let tls = ClientConnection::new(keys.client.clone(), no_name()).map_err(io::Error::other)?;
        Wire::begin(socket, tls.into(), keys, deadline)
    }

    /// Establishes a connection as the server.
    ///
    /// # Errors
    /// Like [`Wire::connect`].
    pub fn accept(
        socket: Arc<TcpStream>,
        keys: Option<&Arc<Keys>>,
        deadline: Instant,
    ) -> Result<Wire, Error> {
        let Some(keys) = keys else { return Ok(Wire::plain(socket)) };
        let tls = ServerConnection::new(keys.server.clone()).map_err(io::Error::other)?;
        Wire::begin(socket, tls.into(), keys, deadline)
    }

    fn begin(
        socket: Arc<TcpStream>,
        tls: Connection,
        keys: &Arc<Keys>,
        deadline: Instant,
    ) -> Result<Wire, Error> {
        let incoming = BufReader::with_capacity(INCOMING, Socket(socket.clone()));
        let mut secret = Box::new(Secret { tls, incoming, keys: keys.clone(), peer: None, unread: 0 });
        if let Err(error) = secret.shake_hands(&socket, deadline) {
            part(&socket);
            return Err(secret.explain(error));
        }
        let shown = secret.tls.peer_certificates().and_then(|keys| keys.first());
        secret.peer = shown.map(|key| Fingerprint::from_public_key(key));
        Ok(Wire { socket, secret: Some(secret) })
    }

    /// Returns the socket.
    pub fn socket(&self) -> &Arc<TcpStream> {
        &self.socket
    }

    /// Returns the key that the peer has proved to own; `None` without encryption.
    pub fn peer(&self) -> Option<Fingerprint> {
        self.secret.as_ref().and_then(|secret| secret.peer)
    }

    /// Returns whether the connection is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.secret.is_some()
    }

    /// Returns whether received bytes are buffered, so that a read can return data even if the socket has none.
    pub fn has_unread(&self) -> bool {
        self.secret.as_ref().is_some_and(|secret| secret.unread > 0 || !secret.incoming.buffer().is_empty())
    }

    /// Returns whether written bytes wait for room in the socket. [`Wire::flush`] sends them.
    pub fn has_unsent(&self) -> bool {
        self.secret.as_ref().is_some_and(|secret| secret.tls.wants_write())
    }
}

impl Read for Wire {
    /// Reads decrypted bytes. Returns 0 if the peer closed the connection.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.secret {
            None => (&*self.socket).read(into),
            Some(secret) => secret.read(&self.socket, into),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    /// Accepts bytes, which are sent now or later; see [`Wire::has_unsent`].
    fn write_vectored(&mut self, parts: &[IoSlice]) -> io::Result<usize> {
        match &mut self.secret {
            None => (&*self.socket).write_vectored(parts),
            Some(secret) => secret.write(&self.socket, parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.secret {
            None => Ok(()),
            Some(secret) => secret.flush(&self.socket),
        }
    }
}

impl Secret {
    fn shake_hands(&mut self, socket: &TcpStream, deadline: Instant) -> io::Result<()> {
        loop {
            match self.step(socket) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) if !is_early(&error) => return Err(error),
                Err(_) => {}
            }
            // The deadline must also end the handshake with a peer that sends single bytes slowly.
            if Instant::now() >= deadline {
                return Err(ErrorKind::TimedOut.into());
            }
        }
    }

    /// Sends and receives a part of the handshake. Returns whether the handshake is complete.
    fn step(&mut self, socket: &TcpStream) -> io::Result<bool> {
        self.flush(socket)?;
        if self.tls.is_handshaking() {
            self.receive(socket)?;
        }
        Ok(!self.tls.is_handshaking() && !self.tls.wants_write())
    }

    /// Receives some bytes, and decrypts the complete TLS records.
    fn receive(&mut self, socket: &TcpStream) -> io::Result<()> {
        if self.tls.read_tls(&mut self.incoming)? == 0 {
            // The peer ended without a TLS closure alert, because the connection broke or the process of the peer is gone.
            return Err(ErrorKind::UnexpectedEof.into());
        }
        match self.tls.process_new_packets() {
            Ok(state) => self.unread = state.plaintext_bytes_to_read(),
            Err(error) => {
                // Sends the reason, in case the peer still reads.
                let _ = self.flush(socket);
                return Err(io::Error::new(ErrorKind::InvalidData, error));
            }
        }
        Ok(())
    }

    fn read(&mut self, socket: &TcpStream, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(into) {
                Ok(count) => {
                    self.unread = self.unread.saturating_sub(count);
                    return Ok(count);
                }
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                Err(_) => {}
            }
            self.receive(socket).map_err(|error| match error.kind() {
                ErrorKind::InvalidData => self.explain(error).into(),
                _ => error,
            })?;
        }
    }

    fn write(&mut self, socket: &TcpStream, parts: &[IoSlice]) -> io::Result<usize> {
        // First makes room in the send buffer. Bytes that do not fit even then are not accepted.
        match self.flush(socket) {
            Err(error) if !is_early(&error) => return Err(error),
            _ => {}
        }
        let count = self.tls.writer().write_vectored(parts)?;
        if count == 0 && parts.iter().any(|part| !part.is_empty()) {
            return Err(ErrorKind::WouldBlock.into());
        }
        // An error is ignored here, because the accepted bytes may also be sent later, and the error is reported then.
        let _ = self.flush(socket);
        Ok(count)
    }

    fn flush(&mut self, socket: &TcpStream) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut &*socket) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Converts a TLS error into an error whose text advises the owner of the keys.
    fn explain(&self, error: io::Error) -> Error {
        use rustls::Error as Tls;
        let folder = self.keys.folder().to_path_buf();
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Tls>()) {
            Some(Tls::InvalidCertificate(CertificateError::Other(other))) => match other.0.downcast_ref() {
                // A list that cannot be read also makes every key untrusted. In that case the error of the list is returned, because the
                // list must be repaired.
                Some(NotTrusted(theirs)) => crate::folder::trusted(&folder)
                    .err()
                    .unwrap_or(Error::Untrusted { theirs: *theirs, folder }),
                None => Error::NotTls(other.to_string()),
            },
            Some(Tls::AlertReceived(AlertDescription::CertificateUnknown)) => {
                Error::Refused { ours: self.keys.fingerprint() }
            }
            // The peer has spoken TLS before, so the bytes were changed on the way.
            Some(other) if self.tls.protocol_version().is_some() => Error::Changed(other.to_string()),
            Some(other) => Error::NotTls(other.to_string()),
            None if error.kind() == ErrorKind::UnexpectedEof => {
                Error::NotTls("it closed the connection".into())
            }
            None => Error::Broken(error),
        }
    }
}

/// Returns whether an error is a timeout of the socket or an interruption by a signal, which are not failures.
fn is_early(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Makes the kernel detect within `silence` that the machine or the link of a peer is gone: by keep-alive probes while no data are sent,
/// and by missing acknowledgements otherwise.
///
/// # Errors
/// Like setsockopt(2).
pub fn keep_alive(socket: &TcpStream, silence: Duration) -> io::Result<()> {
    use rustix::net::sockopt;
    // The options have a resolution of whole seconds. After the first quarter of the time, three probes follow.
    let quarter = Duration::from_secs((silence.as_secs() / 4).max(1));
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, quarter)?;
    sockopt::set_tcp_keepintvl(socket, quarter)?;
    sockopt::set_tcp_keepcnt(socket, 3)?;
    Ok(sockopt::set_tcp_user_timeout(socket, silence.as_millis().min(u32::MAX.into()) as u32)?)
}

/// Shuts down the send direction, and waits a moment so that the peer can read the reason. The wait is necessary because closing a socket
/// with unread input would discard the data that were sent.
pub fn part(socket: &TcpStream) {
    let _ = socket.shutdown(Shutdown::Write);
    let _ = socket.set_read_timeout(Some(FAREWELL));
    let deadline = Instant::now() + FAREWELL;
    let mut bytes = [0; 4096];
    let mut socket = socket;
    while Instant::now() < deadline && matches!(socket.read(&mut bytes), Ok(1..)) {}
}

/// Returns whether the first byte that a client sends is not TLS. Waits for that byte until the socket's timeout.
///
/// # Errors
/// If the client sends no byte.
pub fn speaks_plainly(socket: &TcpStream) -> io::Result<bool> {
    let mut first = [0];
    match socket.peek(&mut first)? {
        0 => Err(ErrorKind::UnexpectedEof.into()),
        _ => Ok(first[0] != HANDSHAKE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder;
    use std::net::TcpListener;
    use std::path::PathBuf;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn keys(name: &str) -> Arc<Keys> {
        let folder = std::env::temp_dir().join(format!("unrack-wire-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        Arc::new(Keys::make(&folder).unwrap())
    }

    fn trust(who: &Keys, whom: &Keys) {
        folder::trust(who.folder(), whom.fingerprint(), "peer").unwrap();
    }

    fn sockets() -> (Arc<TcpStream>, Arc<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let far = listener.accept().unwrap().0;
        for socket in [&near, &far] {
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        (Arc::new(near), Arc::new(far))
    }

    /// Connects two sockets to each other, and returns the result of each end.
    fn meet(client: &Arc<Keys>, server: &Arc<Keys>) -> (Result<Wire, Error>, Result<Wire, Error>) {
        let (near, far) = sockets();
        let deadline = Instant::now() + PATIENCE;
        std::thread::scope(|scope| {
            let server = scope.spawn(move || Wire::accept(far, Some(server), deadline));
            (Wire::connect(near, Some(client), deadline), server.join().unwrap())
        })
    }

    fn gone(keys: &[&Keys]) {
        let folders: Vec<PathBuf> = keys.iter().map(|keys| keys.folder().to_path_buf()).collect();
        folders.iter().for_each(|folder| std::fs::remove_dir_all(folder).unwrap());
    }

    #[test]
    fn peers_that_trust_each_other_talk_and_know_whom() {
        let (client, server) = (keys("client"), keys("server"));
        trust(&client, &server);
        trust(&server, &client);
        let (near, far) = meet(&client, &server);
        let (mut near, mut far) = (near.unwrap(), far.unwrap());
        assert_eq!((near.peer(), far.peer()), (Some(server.fingerprint()), Some(client.fingerprint())));
        let message: Vec<u8> = (0..300_000).map(|at| (at * 7 % 251) as u8).collect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut came = vec![0; message.len()];
                far.read_exact(&mut came).unwrap();
                far.write_all(&came).unwrap();
                far.flush().unwrap();
            });
            near.write_all(&message).unwrap();
            near.flush().unwrap();
            let mut back = vec![0; message.len()];
            near.read_exact(&mut back).unwrap();
            assert!(back == message);
        });
        gone(&[&client, &server]);
    }

    #[test]
    fn who_is_not_trusted_gets_nothing_and_both_are_told() {
        let (client, server) = (keys("client-refused"), keys("server-refused"));
        let (near, far) = meet(&client, &server);
        let said = near.err().unwrap().to_string();
        assert!(said.contains(&format!("unrack keys trust {}", server.fingerprint())), "{said}");
        assert!(far.is_err());
        // Now the client trusts the server, but the server does not trust the client.
        trust(&client, &server);
        let (near, far) = meet(&client, &server);
        let said = far.err().unwrap().to_string();
        assert!(said.contains(&client.fingerprint().to_string()), "{said}");
        let said = near.and_then(|mut near| Ok(near.read(&mut [0; 10]).map(drop)?)).unwrap_err().to_string();
        assert!(said.contains(&format!("unrack keys trust {}` there", client.fingerprint())), "{said}");
        // A key that is removed from the list is rejected from the next connection on, without a restart.
        trust(&server, &client);
        assert!(meet(&client, &server).1.is_ok());
        folder::distrust(server.folder(), client.fingerprint()).unwrap();
        assert!(meet(&client, &server).1.is_err());
        gone(&[&client, &server]);
    }

    #[test]
    fn a_list_that_others_can_write_trusts_nobody_and_that_is_said() {
        use std::os::unix::fs::PermissionsExt;
        let (client, server) = (keys("client-open"), keys("server-open"));
        trust(&client, &server);
        trust(&server, &client);
        let list = client.folder().join("trusted");
        std::fs::set_permissions(&list, std::fs::Permissions::from_mode(0o666)).unwrap();
        let said = meet(&client, &server).0.err().unwrap().to_string();
        assert!(said.contains(&format!("`chmod go-w {}`", list.display())), "{said}");
        gone(&[&client, &server]);
    }

    #[test]
    fn bytes_that_change_on_the_way_are_said_to_have_changed() {
        let (client, server) = (keys("client-changed"), keys("server-changed"));
        trust(&client, &server);
        trust(&server, &client);
        let (near, far) = meet(&client, &server);
        let (mut near, mut far) = (near.unwrap(), far.unwrap());
        // Bytes that look like a TLS record, but were not made with the keys of this connection.
        let record = [&[23, 3, 3, 0, 32][..], &[7; 32]].concat();
        (&**near.socket()).write_all(&record).unwrap();
        let said = far.read(&mut [0; 10]).unwrap_err().to_string();
        assert!(said.contains("changed on the way"), "{said}");
        // This end sends an alert, from which the other end learns of the error.
        let said = near.read(&mut [0; 10]).unwrap_err().to_string();
        assert!(said.contains("changed on the way"), "{said}");
        gone(&[&client, &server]);
    }

    #[test]
    fn strangers_to_tls_are_found_out() {
        let server = keys("tls-only");
        let (near, far) = sockets();
        (&*near).write_all(b"unrackmn and more that is no TLS at all").unwrap();
        assert!(speaks_plainly(&far).unwrap());
        let deadline = Instant::now() + PATIENCE;
        assert!(matches!(Wire::accept(far, Some(&server), deadline), Err(Error::NotTls(_))));
        let (near, far) = sockets();
        let silent = std::thread::spawn(move || {
            (&*far).write_all(b"unrackmn plain").unwrap();
            let _ = (&*far).read(&mut [0; 1000]);
        });
        let said = Wire::connect(near, Some(&server), deadline).err().unwrap().to_string();
        assert!(said.contains("does not speak TLS"), "{said}");
        silent.join().unwrap();
        let (near, _far) = sockets();
        near.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
        let soon = Instant::now() + Duration::from_millis(50);
        let late = Wire::connect(near, Some(&server), soon).err().unwrap();
        assert!(late.may_pass(), "{late}");
        gone(&[&server]);
    }

    /// Both ends write more than the sockets can buffer before either reads, and neither may block forever.
    #[test]
    fn reading_does_not_wait_for_writing() {
        let (client, server) = (keys("both-c"), keys("both-s"));
        trust(&client, &server);
        trust(&server, &client);
        let (near, far) = meet(&client, &server);
        let mut ends = [near.unwrap(), far.unwrap()];
        ends.iter().for_each(|end| end.socket().set_nonblocking(true).unwrap());
        const BYTES: usize = 24 << 20;
        let (mut sent, mut came) = ([0; 2], [0; 2]);
        let (piece, mut place) = (vec![7; 100_000], vec![0; 100_000]);
        let begun = Instant::now();
        while came != [BYTES; 2] {
            assert!(begun.elapsed() < PATIENCE * 3, "{sent:?} {came:?}");
            for at in 0..2 {
                let left = piece.len().min(BYTES - sent[at]);
                if left > 0 {
                    sent[at] += ends[at].write(&piece[..left]).unwrap_or_else(blocked);
                }
                let _ = ends[at].flush();
            }
            // Reading starts only after many bytes were written, so that both ends write as much as possible first.
            if sent.iter().sum::<usize>() > 8 << 20 {
                for at in 0..2 {
                    came[at] += ends[at].read(&mut place).unwrap_or_else(blocked);
                }
            }
        }
        gone(&[&client, &server]);
    }

    fn blocked(error: io::Error) -> usize {
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
        0
    }
}
