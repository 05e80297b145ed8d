//! Client of a store, and views of its values.

use crate::wire::{
    self, DELETE, GET, HEADER, Header, LET_GO, MOST_KEY, MOST_PLACES, PUT, PUT_IF, READ, VERSION,
    ValuePosition,
};
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};
use unrack_rpc::client::{Options, Request, Response};
use unrack_rpc::view::{View, ViewMut};
use unrack_rpc::{EntryStatus, Method};

/// Size in bytes from which a value is released as soon as the client no longer reads it.
const LARGE: u64 = 64 << 10;

/// Initial room for a copied value, in bytes.
const USUAL: usize = 4 << 10;

/// Reason why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Rpc(#[from] unrack_rpc::Error),
    #[error("a key of {0} bytes: at most {MOST_KEY}")]
    KeyTooLong(usize),
    #[error("{0} has no memory for the value")]
    Full(String),
    #[error("{0} breaks the protocol of the store: it named a value that it does not lend")]
    NotLent(String),
    #[error("{0} breaks the protocol of the store: its answer to a write has no version")]
    NoVersion(String),
}

/// Connection to a store. Threads may share it.
pub struct Client {
    rpc: unrack_rpc::Client,
    places: Mutex<Places>,
    freed: Condvar,
}

/// Places that hold no value in use. The place that was used last is reused first.
struct Places {
    free: Vec<u16>,
    next: u16,
}

/// A value in the server's memory, or a copy if no memory is shared. It does not change, and it remains valid until
/// this `Value` is dropped.
pub struct Value<'c> {
    contents: ValueContents<'c>,
    version: u64,
}

enum ValueContents<'c> {
    /// View of the server's memory, and the place that holds the value there.
    Lent(View<'c>, #[expect(dead_code, reason = "it holds the value")] SlotGuard<'c>),
    /// Answer that contains the value after its version.
    Copied(Response<'c>),
}

/// A place that is in use until this is dropped.
struct SlotGuard<'c> {
    client: &'c Client,
    number: u16,
    /// True if the place holds a large value, which must be released before the next get.
    large: bool,
}

impl Client {
    /// Connects to the pool at a socket, and to a store by its name.
    ///
    /// # Errors
    /// As for [`unrack_rpc::Client::connect`].
    pub fn connect(pool: impl AsRef<Path>, name: &str, options: Options) -> Result<Client, Error> {
        let rpc = unrack_rpc::Client::connect(pool, name, options)?;
        Ok(Client { rpc, places: Mutex::new(Places { free: Vec::new(), next: 0 }), freed: Condvar::new() })
    }

    /// Returns the value of a key, without a copy if memory is shared. If the client is already reading 1,024 values,
    /// waits until one of them is dropped.
    ///
    /// # Errors
    /// If the call fails.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>, Error> {
        if !self.rpc.shares_memory() {
            return self.read(key);
        }
        let mut place = self.place();
        let header = Header { place: place.number, ..Header::default() };
        let answer = self.call(GET, header, key, 0, ValuePosition::BYTES, |_| {})?;
        let Some(found) = ValuePosition::read(answer.body()) else { return Ok(None) };
        drop(answer);
        place.large = found.length >= LARGE;
        let view = self.rpc.lent(found.offset, found.length as usize);
        let view = view.ok_or_else(|| Error::NotLent(self.rpc.peer().to_string()))?;
        Ok(Some(Value { contents: ValueContents::Lent(view, place), version: found.version }))
    }

    /// Returns a copy of the value of a key.
    fn read(&self, key: &[u8]) -> Result<Option<Value<'_>>, Error> {
        let mut room = USUAL;
        loop {
            match self.call(READ, Header::default(), key, 0, VERSION + room, |_| {}) {
                Err(Error::Rpc(unrack_rpc::Error::NoRoom { needed, .. })) if needed > room => room = needed,
                Err(error) => return Err(error),
                Ok(answer) => {
                    let version = answer.body().get(0).ok();
                    return Ok(
                        version.map(|version| Value { contents: ValueContents::Copied(answer), version })
                    );
                }
            }
        }
    }

    /// Writes a value, and returns its version. The versions of a store increase with each write.
    ///
    /// # Errors
    /// If the call fails, or if there is no memory for the value.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<u64, Error> {
        self.put_with(key, value.len(), |mut bytes| bytes.copy_from(value))
    }

    /// Writes a value of `bytes` bytes, which `write` fills in place, and returns its version.
    ///
    /// # Errors
    /// As for [`put`](Client::put).
    pub fn put_with(&self, key: &[u8], bytes: usize, write: impl FnOnce(ViewMut<'_>)) -> Result<u64, Error> {
        let answer = self.call(PUT, Header::default(), key, bytes, 8, write)?;
        answer.body().get(0).map_err(|_| Error::NoVersion(self.rpc.peer().to_string()))
    }

    /// Writes a value if the key still has this version; version 0 means that the key must not exist. Returns the new
    /// version, or `None` if the key has another version.
    ///
    /// # Errors
    /// As for [`put`](Client::put).
    pub fn put_if(&self, key: &[u8], version: u64, value: &[u8]) -> Result<Option<u64>, Error> {
        let header = Header { version, ..Header::default() };
        let answer = self.call(PUT_IF, header, key, value.len(), 8, |mut bytes| bytes.copy_from(value))?;
        Ok(answer.body().get(0).ok())
    }

    /// Reads, modifies and writes a value as one atomic step, and returns the new version. `modify` returns the new
    /// value, and is called again if another client wrote the value meanwhile.
    ///
    /// # Errors
    /// As for [`get`](Client::get) and [`put`](Client::put).
    pub fn update(
        &self,
        key: &[u8],
        mut modify: impl FnMut(Option<View<'_>>) -> Vec<u8>,
    ) -> Result<u64, Error> {
        loop {
            let value = self.get(key)?;
            let version = value.as_ref().map_or(0, Value::version);
            let modified = modify(value.as_ref().map(Value::body));
            drop(value);
            if let Some(version) = self.put_if(key, version, &modified)? {
                return Ok(version);
            }
        }
    }

    /// Removes a key. Returns the version that the key had, or `None` if it did not exist.
    ///
    /// # Errors
    /// If the call fails.
    pub fn delete(&self, key: &[u8]) -> Result<Option<u64>, Error> {
        let answer = self.call(DELETE, Header::default(), key, 0, 8, |_| {})?;
        Ok(answer.body().get(0).ok())
    }

    fn call(
        &self,
        method: Method,
        header: Header,
        key: &[u8],
        value_bytes: usize,
        room: usize,
        write: impl FnOnce(ViewMut<'_>),
    ) -> Result<Response<'_>, Error> {
        let request = self.request(header, key, value_bytes, room, write)?;
        request.call(method).map_err(|error| match error {
            unrack_rpc::Error::Refused { peer, status }
                if status == EntryStatus(EntryStatus::SERVICE + wire::FULL) =>
            {
                Error::Full(peer)
            }
            error => error.into(),
        })
    }

    fn request(
        &self,
        header: Header,
        key: &[u8],
        value_bytes: usize,
        room: usize,
        write: impl FnOnce(ViewMut<'_>),
    ) -> Result<Request<'_>, Error> {
        if key.len() > MOST_KEY {
            return Err(Error::KeyTooLong(key.len()));
        }
        let value =
            u32::try_from(value_bytes).map_err(|_| unrack_rpc::Error::TooLong { asked: value_bytes })?;
        let header = Header { key: key.len() as u16, value, ..header };
        let mut request = self.rpc.request_with_room(HEADER + key.len() + value_bytes, room)?;
        header.write(key, request.body(), write).expect("as long as it was asked to be");
        Ok(request)
    }

    /// Takes a free place; waits if there is none.
    fn place(&self) -> SlotGuard<'_> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(number) = places.free.pop() {
                return SlotGuard { client: self, number, large: false };
            }
            if places.next < MOST_PLACES {
                places.next += 1;
                return SlotGuard { client: self, number: places.next - 1, large: false };
            }
            places = self.freed.wait(places).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Value<'_> {
    /// Returns a view of the value.
    pub fn body(&self) -> View<'_> {
        match &self.contents {
            ValueContents::Lent(view, _) => *view,
            ValueContents::Copied(answer) => {
                let body = answer.body();
                body.part(VERSION, body.len() - VERSION).expect("a version is before it")
            }
        }
    }

    /// Returns the value's version.
    pub fn version(&self) -> u64 {
        self.version
    }
}

impl Drop for SlotGuard<'_> {
    fn drop(&mut self) {
        if self.large {
            let header = Header { place: self.number, ..Header::default() };
            // If this message cannot be sent, the next get into the place releases the value.
            let _ = self.client.request(header, b"", 0, 0, |_| {}).map(|request| request.send(LET_GO));
        }
        if self.client.rpc.check_process().is_err() {
            return;
        }
        self.client.places.lock().unwrap_or_else(PoisonError::into_inner).free.push(self.number);
        self.client.freed.notify_one();
    }
}
