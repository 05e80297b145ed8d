//! Calls of `unrack-rpc` through its public interface, as any program makes them.

use crate::harness::{self, Peer, Place, Timed};
use crate::work::{fill, sum};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;
use unrack_pool::cache_control::MemoryKind;
use unrack_rpc::client::Window;
use unrack_rpc::{Client, Method, Server, Waiting, client, server};

pub struct Unrack {
    name: &'static str,
    mode: MemoryKind,
    waiting: Waiting,
}

impl Unrack {
    pub const COHERENT: Self = Self { name: "unrack", mode: MemoryKind::Coherent, waiting: Waiting::Spin };
    pub const INCOHERENT: Self =
        Self { name: "unrack, incoherent", mode: MemoryKind::Incoherent, waiting: Waiting::Spin };
    pub const SLEEPING: Self =
        Self { name: "unrack, sleeping", mode: MemoryKind::Coherent, waiting: Waiting::Sleep };

    fn connect(&self, place: &Place) -> io::Result<Client> {
        let options = client::Options {
            waiting: self.waiting,
            window: Window::Fixed(WINDOW as u16),
            ..client::Options::default()
        };
        let connect = || Client::connect(place.socket(), "echo", options.clone()).map_err(io::Error::other);
        harness::patiently(connect)
    }
}

const ECHO: Method = Method::named("echo");
const WINDOW: usize = 16;

impl Peer for Unrack {
    fn name(&self) -> &'static str {
        self.name
    }

    fn takes(&self, size: usize) -> bool {
        self.waiting != Waiting::Sleep || size == 64
    }

    fn serve(&self, place: &Place, _: usize) -> io::Result<()> {
        let capacity = unrack_pool::manager::Options::new(place.socket(), "256MiB".parse().expect("a size"));
        let options = unrack_pool::manager::Options { mode: self.mode, ..capacity };
        let _manager = unrack_pool::Manager::start(&options).map_err(io::Error::other)?;
        let options = server::Options { waiting: self.waiting, ..server::Options::default() };
        let _serving = Server::new("echo", options)
            .method("echo", |call| {
                let length = call.request().len();
                let answer = call.answer(length)?;
                // SAFETY: the client of this benchmark follows the protocol.
                let bytes = unsafe { answer.into_slice_for_trusted_peer() };
                let seed = sum(bytes);
                fill(bytes, seed);
                Ok(())
            })
            .serve(place.socket())
            .map_err(io::Error::other)?;
        loop {
            std::thread::sleep(Duration::from_secs(3600));
        }
    }

    fn client(&self, place: &Place, size: usize, timed: &mut Timed) -> io::Result<()> {
        let client = self.connect(place)?;
        timed.run(|| {
            let mut request = client.request(size).expect("a free buffer");
            // SAFETY: the server of this benchmark follows the protocol.
            fill(unsafe { request.body().into_slice_for_trusted_peer() }, 1);
            let answer = request.call(ECHO).expect("an answer");
            // SAFETY: the server of this benchmark follows the protocol.
            std::hint::black_box(sum(unsafe { answer.body().as_slice_of_trusted_peer() }));
        });
        Ok(())
    }

    fn has_window(&self) -> bool {
        self.waiting == Waiting::Spin
    }

    fn windowed(&self, place: &Place, size: usize, timed: &mut Timed) -> io::Result<()> {
        let client = self.connect(place)?;
        let mut pending = VecDeque::with_capacity(WINDOW + 1);
        timed.run_windowed(|| {
            while pending.len() <= WINDOW {
                let mut request = client.request(size).expect("a free buffer");
                // SAFETY: the server of this benchmark follows the protocol.
                fill(unsafe { request.body().into_slice_for_trusted_peer() }, 1);
                pending.push_back(request.start(ECHO).expect("room in the window"));
            }
            let answer = pending.pop_front().expect("just filled").wait().expect("an answer");
            // SAFETY: the server of this benchmark follows the protocol.
            std::hint::black_box(sum(unsafe { answer.body().as_slice_of_trusted_peer() }));
        });
        Ok(())
    }
}
