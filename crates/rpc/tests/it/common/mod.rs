//! A pool in a folder of its own, and a service that does a little of everything.

pub(crate) mod books;

use std::path::{Path, PathBuf};
use std::time::Duration;
use unrack_pool::cache_control::MemoryKind;
use unrack_pool::{Manager, manager};
use unrack_rpc::server::{Call, Refusal};
use unrack_rpc::{Client, Server, client, server};
use unrack_testing::{Folder, Needed, skip};

/// Returns all kinds of memory that this machine has.
pub(crate) fn modes() -> Vec<MemoryKind> {
    let flushes = unrack_pool::cache_control::Incoherent::detect();
    if let Err(why) = &flushes {
        skip(Needed::Flush, why);
    }
    let incoherent = flushes.is_ok().then_some(MemoryKind::Incoherent);
    [MemoryKind::Coherent, MemoryKind::Model].into_iter().chain(incoherent).collect()
}

pub(crate) struct Pool {
    _manager: Manager,
    folder: Folder,
}

impl Pool {
    pub(crate) fn new(mode: MemoryKind) -> Pool {
        Pool::with(mode, "64MiB", |_| {})
    }

    pub(crate) fn with(mode: MemoryKind, capacity: &str, change: impl FnOnce(&mut manager::Options)) -> Pool {
        let folder = Folder::new("rpc");
        let mut options = manager::Options::new(folder.join("pool"), capacity.parse().expect("a size"));
        options.mode = mode;
        // The processes of a test are threads of one process.
        options.per_client = Some("100%".parse().expect("a share"));
        change(&mut options);
        let manager = Manager::start(&options).expect("a manager starts");
        Pool { _manager: manager, folder }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("pool")
    }

    pub(crate) fn client(&self, options: client::Options) -> Client {
        Client::connect(self.socket(), "test", options).expect("the service takes clients")
    }
}

/// Serves `echo`, `sum` (of words), `fill` (as many bytes as asked for), `refuse`, `panic`, `slow`, `count` (a
/// stream).
pub(crate) fn serve(socket: &Path, options: server::Options) -> unrack_rpc::server::Serving {
    service(options).serve(socket).expect("the pool is there")
}

fn word(call: &Call<'_>, at: usize) -> Result<u64, Refusal> {
    call.request().get(at * 8).map_err(|_| Refusal::from_number(0))
}

pub(crate) fn service(options: server::Options) -> Server {
    Server::new("test", options)
        .method("echo", |call| {
            let length = call.request().len();
            call.answer(length)?;
            Ok(())
        })
        .method("sum", |call| {
            let words = call.request().len() / 8;
            let mut sum = 0u64;
            for at in 0..words {
                sum = sum.wrapping_add(word(call, at)?);
            }
            call.answer(8)?.put(0, sum).expect("eight bytes");
            Ok(())
        })
        .method("fill", |call| {
            let bytes = word(call, 0)? as usize;
            call.answer(bytes)?.copy_from(&vec![0x5a; bytes]);
            Ok(())
        })
        .method("refuse", |_| Err(Refusal::from_number(7)))
        .method("panic", |_| std::panic::resume_unwind(Box::new("as the client asked")))
        .method("slow", |call| {
            std::thread::sleep(Duration::from_millis(word(call, 0)?));
            Ok(())
        })
        .stream("count", |call| {
            let mut left = word(call, 0)?;
            let mut next = 0u64;
            Ok(Box::new(move |call: &mut Call<'_>| {
                if left == 0 {
                    return Ok(false);
                }
                call.answer(8)?.put(0, next).expect("eight bytes");
                (next, left) = (next + 1, left - 1);
                Ok(left > 0)
            }))
        })
}
