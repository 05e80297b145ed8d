//! Keys, values, and the places by which clients hold values.

use crate::wire::ValuePosition;
use std::collections::HashMap;
use unrack_pool::arena::{Buffer, Cache};
use unrack_pool::cache_control::{AnyMemory, SharedMemory};
use unrack_rpc::view::View;

/// Table of values by key. Only one thread at a time uses it, and no operation waits.
pub struct Store {
    cache: Cache,
    memory: AnyMemory,
    keys: HashMap<Box<[u8]>, u32>,
    /// Values, indexed by their number.
    values: Vec<Option<Value>>,
    free: Vec<u32>,
    /// For each client, the number of the value in each of its places.
    held: HashMap<u64, Vec<Option<u32>>>,
    version: u64,
}

/// A stored value, of which only the number of holders changes.
struct Value {
    buffer: Buffer,
    length: u64,
    version: u64,
    /// Number of places that hold the value, plus one while a key refers to it.
    holders: u32,
}

/// Numbers of the keys, the values, and the places that hold values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreCounts {
    pub keys: usize,
    /// Number of values to which keys refer, plus those that are only held by places.
    pub values: usize,
    /// Number of places that hold a value.
    pub held: usize,
}

/// Error if there is no memory for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory;

impl Store {
    /// Makes an empty store, whose values are buffers of the cache's arena.
    pub fn new(cache: Cache, memory: AnyMemory) -> Store {
        Store {
            cache,
            memory,
            keys: HashMap::new(),
            values: Vec::new(),
            free: Vec::new(),
            held: HashMap::new(),
            version: 0,
        }
    }

    /// Finds the value of a key, and holds it in a client's place. The place's previous value is released.
    pub fn get(&mut self, client: u64, place: u16, key: &[u8]) -> Option<ValuePosition> {
        let found = self.keys.get(key).copied();
        if let Some(number) = found {
            self.value(number).holders += 1;
        }
        let places = self.held.entry(client).or_default();
        if places.len() <= usize::from(place) {
            places.resize(usize::from(place) + 1, None);
        }
        if let Some(before) = std::mem::replace(&mut places[usize::from(place)], found) {
            self.let_go_of(before);
        }
        let value = self.value(found?);
        Some(ValuePosition { offset: value.buffer.offset(), length: value.length, version: value.version })
    }

    /// Returns the value of a key, to be copied, and the value's version.
    pub fn read(&mut self, key: &[u8]) -> Option<(&[u8], u64)> {
        let number = self.keys.get(key).copied()?;
        let value = self.value(number);
        // SAFETY: this is the value's buffer, which only this process writes, and which is not freed during the borrow.
        let bytes = unsafe { std::slice::from_raw_parts(value.buffer.as_ptr(), value.length as usize) };
        Some((bytes, value.version))
    }

    /// Writes a value, and returns its version.
    ///
    /// # Errors
    /// If there is no memory for the value; then the key keeps its old value.
    pub fn put(&mut self, key: &[u8], contents: View<'_>) -> Result<u64, OutOfMemory> {
        let length = contents.len() as u64;
        let buffer = self.cache.alloc(length.max(1)).map_err(|_| OutOfMemory)?;
        // SAFETY: the buffer is long enough and belongs to this store. No client knows of it yet, and only this process
        // may write it.
        unsafe {
            contents.copy_to(std::slice::from_raw_parts_mut(buffer.as_ptr(), contents.len()));
            self.memory.publish(buffer.as_ptr(), contents.len());
        }
        self.version += 1;
        let value = Some(Value { buffer, length, version: self.version, holders: 1 });
        let number = match self.free.pop() {
            Some(number) => {
                self.values[number as usize] = value;
                number
            }
            None => {
                self.values.push(value);
                (self.values.len() - 1) as u32
            }
        };
        let before = match self.keys.get_mut(key) {
            Some(current) => Some(std::mem::replace(current, number)),
            None => self.keys.insert(key.into(), number),
        };
        if let Some(before) = before {
            self.let_go_of(before);
        }
        Ok(self.version)
    }

    /// Writes a value if the key has this version; version 0 means that the key must not exist. Otherwise returns
    /// `None`.
    ///
    /// # Errors
    /// As for [`put`](Store::put).
    pub fn put_if(
        &mut self,
        key: &[u8],
        version: u64,
        contents: View<'_>,
    ) -> Result<Option<u64>, OutOfMemory> {
        if self.version_of(key) != version {
            return Ok(None);
        }
        self.put(key, contents).map(Some)
    }

    /// Removes a key, and returns the version that it had; `None` if it did not exist.
    pub fn delete(&mut self, key: &[u8]) -> Option<u64> {
        let number = self.keys.remove(key)?;
        let version = self.value(number).version;
        self.let_go_of(number);
        Some(version)
    }

    /// Releases the value that a client's place holds.
    pub fn let_go(&mut self, client: u64, place: u16) {
        let held = self.held.get_mut(&client).and_then(|places| places.get_mut(usize::from(place)));
        if let Some(number) = held.and_then(Option::take) {
            self.let_go_of(number);
        }
    }

    /// Releases all values that a client holds, because the client is gone.
    pub fn forget(&mut self, client: u64) {
        for number in self.held.remove(&client).into_iter().flatten().flatten() {
            self.let_go_of(number);
        }
    }

    /// Returns the numbers of the keys, the values, and the places that hold values.
    pub fn counts(&self) -> StoreCounts {
        StoreCounts {
            keys: self.keys.len(),
            values: self.values.len() - self.free.len(),
            held: self.held.values().flatten().flatten().count(),
        }
    }

    /// Returns the version of a key; 0 if the key does not exist.
    fn version_of(&mut self, key: &[u8]) -> u64 {
        match self.keys.get(key) {
            Some(&number) => self.value(number).version,
            None => 0,
        }
    }

    fn value(&mut self, number: u32) -> &mut Value {
        self.values[number as usize].as_mut().expect("what is named is there")
    }

    /// Removes one holder of a value, and frees the value if this was the last holder.
    fn let_go_of(&mut self, number: u32) {
        let value = self.value(number);
        value.holders -= 1;
        if value.holders == 0 {
            let value = self.values[number as usize].take().expect("just seen");
            self.free.push(number);
            self.cache.free(value.buffer);
        }
    }
}
