//! Cap'n Proto's RPC over a Unix socket, with one thread on each side.

use crate::echo_capnp::echo;
use crate::harness::{self, Peer, Place, Timed};
use crate::work::{fill, sum};
use capnp_rpc::{RpcSystem, rpc_twoparty_capnp::Side, twoparty::VatNetwork};
use std::io;
use std::rc::Rc;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

pub struct CapnProto;

struct Server;

impl echo::Server for Server {
    async fn echo(
        self: Rc<Self>,
        parameters: echo::EchoParams,
        mut results: echo::EchoResults,
    ) -> Result<(), capnp::Error> {
        let request = parameters.get()?.get_bytes()?;
        let seed = sum(request);
        fill(results.get().init_bytes(request.len() as u32), seed);
        Ok(())
    }
}

fn network(stream: tokio::net::UnixStream, side: Side) -> Box<VatNetwork<impl futures_io::AsyncRead>> {
    let (read, write) = stream.into_split();
    let mut limits = capnp::message::ReaderOptions::new();
    limits.traversal_limit_in_words(None);
    Box::new(VatNetwork::new(read.compat(), write.compat_write(), side, limits))
}

fn run<T>(future: impl Future<Output = T>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(tokio::task::LocalSet::new().block_on(&runtime, future))
}

impl Peer for CapnProto {
    fn name(&self) -> &'static str {
        "capnp over uds"
    }

    fn serve(&self, place: &Place, _: usize) -> io::Result<()> {
        run(async {
            let listener = tokio::net::UnixListener::bind(place.socket())?;
            let (stream, _) = listener.accept().await?;
            let server: echo::Client = capnp_rpc::new_client(Server);
            RpcSystem::new(network(stream, Side::Server), Some(server.client)).await.map_err(io::Error::other)
        })?
    }

    fn client(&self, place: &Place, size: usize, timed: &mut Timed) -> io::Result<()> {
        let socket = harness::wait_for_socket(place)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let local = tokio::task::LocalSet::new();
        let client = local.block_on(&runtime, async {
            let stream = tokio::net::UnixStream::connect(socket).await?;
            let mut system = RpcSystem::new(network(stream, Side::Client), None);
            let client: echo::Client = system.bootstrap(Side::Server);
            tokio::task::spawn_local(system);
            io::Result::Ok(client)
        })?;
        timed.run(|| {
            local.block_on(&runtime, async {
                let mut request = client.echo_request();
                fill(request.get().init_bytes(size as u32), 1);
                let answer = request.send().promise.await.expect("an answer");
                let bytes = answer.get().and_then(|answer| answer.get_bytes()).expect("bytes");
                std::hint::black_box(sum(bytes));
            });
        });
        Ok(())
    }
}
