//! Server that makes runs for another process, which asks the question.

use super::here::OwnRuns;
use super::maker::RunMaker;
use super::wire::{PreparedProgram, Reply, Request, until, words};
use crate::error::{Error, failed};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

/// Makes the runs that the peer of a socket requests, until the peer closes the socket or ends. A run that fails is reported to the peer as
/// its reply.
///
/// # Errors
/// If the peer sends anything but a request.
pub fn serve_runs(stream: UnixStream) -> Result<(), Error> {
    let mut maker = None;
    let lines = BufReader::new(stream.try_clone().map_err(failed)?).lines();
    let mut out = stream;
    for line in lines.map_while(Result::ok) {
        let request: Request = serde_json::from_str(&line).map_err(failed)?;
        let reply = answer(&mut maker, request).unwrap_or_else(Reply::Failed);
        let mut text = serde_json::to_vec(&reply).map_err(failed)?;
        text.push(b'\n');
        if out.write_all(&text).is_err() {
            break;
        }
    }
    Ok(())
}

fn answer(maker: &mut Option<OwnRuns>, request: Request) -> Result<Reply, Error> {
    if let Request::Prepare { version, command } = request {
        if version != env!("CARGO_PKG_VERSION") {
            let own = env!("CARGO_PKG_VERSION");
            return Err(Error::Lacking(format!(
                "the command `unrack` is of version {own}, and this program of {version}: install the same of both"
            )));
        }
        let found = maker.insert(OwnRuns::prepare(&words(command))?);
        let (words, identity, is_repeatable) = (found.words(), found.identity(), found.is_repeatable());
        return Ok(Reply::Prepared(PreparedProgram { words, identity, is_repeatable }));
    }
    let maker = maker.as_ref().ok_or_else(|| failed("no program was prepared"))?;
    Ok(match request {
        Request::Prepare { .. } | Request::Look => Reply::Load(maker.look()?),
        Request::MeasureCost { left_s } => Reply::Cost(maker.measure_cost(until(left_s))?),
        Request::Make { order, left_s } => Reply::Made(maker.make(&order, until(left_s))?),
    })
}
