//! The store's methods, served over a pool.

use crate::store::{OutOfMemory, Store, StoreCounts};
use crate::wire::{HEADER, Header, MOST_KEY, VERSION, ValuePosition};
use crate::{client::Error, wire};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use unrack_rpc::server::{Answered, Call, CallRefusal, Options, RunningService};
use unrack_rpc::{Server, server};

/// A running store. Dropping it ends the service and frees the values.
pub struct StoreService {
    serving: RunningService,
    store: ServiceState,
}

#[derive(Clone)]
struct ServiceState(Arc<Mutex<Store>>);

impl StoreService {
    /// Serves an empty store under a name, over the pool at a socket.
    ///
    /// # Errors
    /// If there is no pool, or if the name is taken.
    pub fn start(pool: impl AsRef<Path>, name: &str, options: Options) -> Result<StoreService, Error> {
        let pool = unrack_pool::Client::connect(pool).map_err(unrack_rpc::Error::from)?;
        let arena = pool.arena();
        let store = ServiceState(Arc::new(Mutex::new(Store::new(arena.cache(), pool.memory().clone()))));
        // Without workers, the thread that finds a call also runs it. Therefore the gets of a client run in order,
        // which the client's places require.
        let server = Server::new(name, server::Options { workers: 0, ..options });
        let serving = store.methods(server).lend(&arena).serve_on(&pool)?;
        Ok(StoreService { serving, store })
    }

    /// Returns the name under which the store is served.
    pub fn name(&self) -> &str {
        self.serving.name()
    }

    /// Returns the address at which the store listens for clients that share no memory, if it does.
    pub fn address(&self) -> Option<std::net::SocketAddr> {
        self.serving.address()
    }

    /// Returns the numbers of the keys, the values, and the places that hold values.
    pub fn counts(&self) -> StoreCounts {
        self.store.lock().counts()
    }

    /// Serves until the manager of the pool is gone.
    pub fn wait(self) {
        self.serving.wait();
    }
}

impl ServiceState {
    fn lock(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn methods(&self, server: Server) -> Server {
        let [get, read, put, put_if, delete, let_go, gone] = std::array::from_fn(|_| self.clone());
        server
            .method("kv.get", move |call| get.get(call))
            .method("kv.read", move |call| read.read(call))
            .method("kv.put", move |call| {
                let asked = RequestHeader::from_call(call)?;
                let put = put.lock().put(asked.key(), asked.value(call)?);
                answer_version(call, Some(put?))
            })
            .method("kv.put_if", move |call| {
                let asked = RequestHeader::from_call(call)?;
                let put = put_if.lock().put_if(asked.key(), asked.header.version, asked.value(call)?);
                answer_version(call, put?)
            })
            .method("kv.delete", move |call| {
                let deleted = delete.lock().delete(RequestHeader::from_call(call)?.key());
                answer_version(call, deleted)
            })
            .method("kv.let_go", move |call| {
                let_go.lock().let_go(call.client(), RequestHeader::from_call(call)?.header.place);
                Ok(())
            })
            .when_gone(move |client| gone.lock().forget(client))
    }

    /// Answers with a copy of the value and its version.
    fn read(&self, call: &mut Call<'_>) -> Answered {
        let asked = RequestHeader::from_call(call)?;
        let mut store = self.lock();
        let Some((value, version)) = store.read(asked.key()) else {
            call.answer(0)?;
            return Ok(());
        };
        let mut answer = call.answer(VERSION + value.len())?;
        answer.put(0, version).expect("eight bytes");
        answer.part(VERSION, value.len()).expect("as long as it was asked to be").copy_from(value);
        Ok(())
    }

    /// Answers with the value's position, and holds the value in the client's place.
    fn get(&self, call: &mut Call<'_>) -> Answered {
        let asked = RequestHeader::from_call(call)?;
        if call.room() < ValuePosition::BYTES {
            // The get must not change the place, because the client would not learn which value the place holds.
            return call.answer(ValuePosition::BYTES).map(drop).map_err(CallRefusal::from);
        }
        let found = self.lock().get(call.client(), asked.header.place, asked.key());
        match found {
            Some(found) => found.write(call.answer(ValuePosition::BYTES)?),
            None => {
                call.answer(0)?;
            }
        }
        Ok(())
    }
}

/// Header of a request, and a copy of the request's key, which the client cannot change.
struct RequestHeader {
    header: Header,
    key: [u8; MOST_KEY],
}

impl RequestHeader {
    fn from_call(call: &Call<'_>) -> Result<RequestHeader, CallRefusal> {
        let malformed = || CallRefusal::from_number(wire::MALFORMED);
        let header = Header::read(call.request()).ok_or_else(malformed)?;
        let mut asked = RequestHeader { header, key: [0; MOST_KEY] };
        let length = usize::from(header.key);
        call.request().part(HEADER, length).map_err(|_| malformed())?.copy_to(&mut asked.key[..length]);
        Ok(asked)
    }

    fn key(&self) -> &[u8] {
        &self.key[..usize::from(self.header.key)]
    }

    fn value<'c>(&self, call: &'c Call<'_>) -> Result<unrack_rpc::view::View<'c>, CallRefusal> {
        self.header.value_of(call.request()).ok_or_else(|| CallRefusal::from_number(wire::MALFORMED))
    }
}

/// Answers with the version, or with an empty answer if there is none.
fn answer_version(call: &mut Call<'_>, version: Option<u64>) -> Answered {
    match version {
        Some(version) => call.answer(8)?.put(0, version).expect("eight bytes"),
        None => {
            call.answer(0)?;
        }
    }
    Ok(())
}

impl From<OutOfMemory> for CallRefusal {
    fn from(_: OutOfMemory) -> CallRefusal {
        CallRefusal::from_number(wire::FULL)
    }
}
