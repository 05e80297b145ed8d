//! gRPC: unary calls of tonic over a Unix socket, with one thread on each side.

use crate::harness::{self, Peer, Place, Timed};
use crate::work::{fill, sum};
use std::convert::Infallible;
use std::future::{Future, ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tonic::codegen::http;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

pub struct Tonic;

const PATH: &str = "/unrack.Echo/Echo";
const LARGEST: usize = 64 << 20;

#[derive(Clone, PartialEq, prost::Message)]
struct Blob {
    #[prost(bytes = "vec", tag = "1")]
    bytes: Vec<u8>,
}

#[derive(Clone)]
struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = "unrack.Echo";
}

impl UnaryService<Blob> for Echo {
    type Response = Blob;
    type Future = std::future::Ready<Result<Response<Blob>, Status>>;

    fn call(&mut self, request: Request<Blob>) -> Self::Future {
        let mut blob = request.into_inner();
        let seed = sum(&blob.bytes);
        fill(&mut blob.bytes, seed);
        ready(Ok(Response::new(blob)))
    }
}

impl tower::Service<http::Request<tonic::body::Body>> for Echo {
    type Response = http::Response<tonic::body::Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        Box::pin(async move {
            let mut grpc = Grpc::new(ProstCodec::<Blob, Blob>::default())
                .max_decoding_message_size(LARGEST)
                .max_encoding_message_size(LARGEST);
            Ok(grpc.unary(Echo, request).await)
        })
    }
}

fn runtime() -> io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

impl Peer for Tonic {
    fn name(&self) -> &'static str {
        "tonic over uds"
    }

    fn serve(&self, place: &Place, _: usize) -> io::Result<()> {
        runtime()?.block_on(async {
            let listener = tokio::net::UnixListener::bind(place.socket())?;
            tonic::transport::Server::builder()
                .add_service(Echo)
                .serve_with_incoming(tokio_stream::wrappers::UnixListenerStream::new(listener))
                .await
                .map_err(io::Error::other)
        })
    }

    fn client(&self, place: &Place, size: usize, timed: &mut Timed) -> io::Result<()> {
        let runtime = runtime()?;
        let socket = harness::wait_for_socket(place)?;
        let channel = runtime.block_on(async {
            let connect = tower::service_fn(move |_: http::Uri| {
                let socket = socket.clone();
                async move { tokio::net::UnixStream::connect(socket).await.map(hyper_util::rt::TokioIo::new) }
            });
            tonic::transport::Endpoint::from_static("http://localhost")
                .connect_with_connector(connect)
                .await
                .map_err(io::Error::other)
        })?;
        let mut grpc = tonic::client::Grpc::new(channel)
            .max_decoding_message_size(LARGEST)
            .max_encoding_message_size(LARGEST);
        timed.run(|| {
            runtime.block_on(async {
                grpc.ready().await.expect("a server");
                let mut blob = Blob { bytes: vec![0; size] };
                fill(&mut blob.bytes, 1);
                let path = http::uri::PathAndQuery::from_static(PATH);
                let codec = ProstCodec::<Blob, Blob>::default();
                let answer = grpc.unary(Request::new(blob), path, codec).await.expect("an answer");
                std::hint::black_box(sum(&answer.into_inner().bytes));
            });
        });
        Ok(())
    }
}
