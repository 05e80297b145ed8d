//! iceoryx2's request-response pattern, with busy waiting on both sides.

use crate::harness::{self, Peer, Place, Timed};
use crate::work::{fill, sum};
use iceoryx2::prelude::*;
use std::io;

pub struct RequestResponse;

type Service = ipc::Service;
type Factory = iceoryx2::service::port_factory::request_response::PortFactory<Service, [u8], (), [u8], ()>;

fn wrong(error: impl std::fmt::Debug) -> io::Error {
    io::Error::other(format!("{error:?}"))
}

fn open(place: &Place) -> io::Result<(Node<Service>, Factory)> {
    set_log_level(LogLevel::Error);
    let node = NodeBuilder::new().create::<Service>().map_err(wrong)?;
    let name = harness::text(&place.folder).to_owned();
    let service = node
        .service_builder(&name.as_str().try_into().map_err(wrong)?)
        .request_response::<[u8], [u8]>()
        .open_or_create()
        .map_err(wrong)?;
    Ok((node, service))
}

impl Peer for RequestResponse {
    fn name(&self) -> &'static str {
        "iceoryx2"
    }

    fn serve(&self, place: &Place, size: usize) -> io::Result<()> {
        let (node, service) = open(place)?;
        let server = service.server_builder().initial_max_slice_len(size).create().map_err(wrong)?;
        std::fs::write(place.socket(), [])?;
        loop {
            // Check for signals from time to time, so that the service is cleaned up when the server is ended.
            if node.wait(core::time::Duration::ZERO).is_err() {
                return Ok(());
            }
            for _ in 0..10_000 {
                let Some(request) = server.receive().map_err(wrong)? else {
                    std::hint::spin_loop();
                    continue;
                };
                let seed = sum(request.payload());
                let answer = request.loan_slice_uninit(size).map_err(wrong)?;
                // SAFETY: every byte is written before it is sent, and bytes have no invalid value.
                let mut answer = unsafe { answer.assume_init() };
                fill(answer.payload_mut(), seed);
                answer.send().map_err(wrong)?;
            }
        }
    }

    fn client(&self, place: &Place, size: usize, timed: &mut Timed) -> io::Result<()> {
        harness::wait_for_socket(place)?;
        let (_node, service) = open(place)?;
        let client = service.client_builder().initial_max_slice_len(size).create().map_err(wrong)?;
        timed.run(|| {
            let request = client.loan_slice_uninit(size).expect("a free request");
            // SAFETY: every byte is written before it is sent, and bytes have no invalid value.
            let mut request = unsafe { request.assume_init() };
            fill(request.payload_mut(), 1);
            let pending = request.send().expect("a server");
            loop {
                if let Some(answer) = pending.receive().expect("an answer") {
                    std::hint::black_box(sum(answer.payload()));
                    break;
                }
                std::hint::spin_loop();
            }
        });
        Ok(())
    }
}
