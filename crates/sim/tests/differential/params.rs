//! Random parameters of each fabric, and what the reference is told of them.

use crate::case::Scale;
use crate::draw::Draw;
use serde_json::{Value, json};
use unrack_protocol::tcp::Congestion;
use unrack_protocol::{dctcp, homa, ndp, pfabric, phost, tcp};
use unrack_sim::FabricConfig;
use unrack_sim::fabric::edm::{EdmConfig, Order};
use unrack_units::{Bytes, Time};

/// Fabrics that the reference knows.
pub const FABRICS: [&str; 8] = ["ideal", "edm", "tcp", "dctcp", "pfabric", "phost", "homa", "ndp"];

pub fn draw(fabric: &str, draw: &mut Draw, scale: &Scale) -> (FabricConfig, Value) {
    match fabric {
        "ideal" => (FabricConfig::Ideal, json!({})),
        "edm" => (FabricConfig::Edm(EdmConfig { policy: Order::Srpt, ..EdmConfig::default() }), json!({})),
        "tcp" | "dctcp" => streams(fabric, draw),
        "pfabric" => {
            let rto = patience(draw, scale);
            let params = pfabric::Params { rto, ..Default::default() };
            (FabricConfig::Pfabric(params), json!({ "timeout_ps": ps(rto) }))
        }
        "phost" => {
            let timeout = patience(draw, scale);
            let token_expiry = draw.flip().then(|| draw.odd(Time::from_ns(100)));
            let params = phost::Params { timeout, token_expiry, ..Default::default() };
            let told = json!({ "timeout_ps": ps(timeout), "token_expiry_ps": ps(token_expiry) });
            (FabricConfig::Phost(params), told)
        }
        "homa" => {
            let resend = patience(draw, scale).unwrap_or(draw.odd(homa::Params::default().resend));
            let params = homa::Params { resend, ..Default::default() };
            (FabricConfig::Homa(params), json!({ "timeout_ps": resend.as_ps() }))
        }
        "ndp" => {
            let rto = patience(draw, scale).unwrap_or(draw.odd(ndp::Params::default().rto));
            let data_packets = draw.one(&[1, 2, 8]);
            let params = ndp::Params { rto, data_packets, ..Default::default() };
            (FabricConfig::Ndp(params), json!({ "timeout_ps": rto.as_ps(), "data_packets": data_packets }))
        }
        _ => unreachable!("no parameters for {fabric}"),
    }
}

/// Of a time-out: the default, or enough for a few round trips.
fn patience(draw: &mut Draw, scale: &Scale) -> Option<Time> {
    let trips = draw.one(&[0, 1, 3, 10]);
    (trips > 0).then(|| draw.odd(scale.round_trip * trips))
}

fn ps(time: Option<Time>) -> Option<u64> {
    time.map(Time::as_ps)
}

fn streams(fabric: &str, draw: &mut Draw) -> (FabricConfig, Value) {
    let initial_window = draw.one(&[1, 2, 10]);
    let about = Time::from_us(draw.one(&[50, 200, 5_000]));
    let min_rto = draw.odd(about);
    let mark_threshold = draw.one(&[3_000, 15_000, 60_000]);
    let config = match fabric {
        "tcp" => FabricConfig::Tcp(tcp::Params {
            congestion: Congestion::NewReno,
            initial_window,
            min_rto,
            ..tcp::Params::default()
        }),
        _ => FabricConfig::Dctcp(dctcp::Params {
            mark_threshold: Some(Bytes::new(mark_threshold)),
            initial_window,
            min_rto,
            ..dctcp::Params::default()
        }),
    };
    let params = json!({
        "initial_window": initial_window, "min_rto_ps": min_rto.as_ps(), "mark_threshold": mark_threshold,
    });
    (config, params)
}
