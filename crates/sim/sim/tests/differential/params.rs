//! Random parameters of each fabric, for both simulators.

use crate::case::Scale;
use crate::draw::Draw;
use crate::fabrics::*;
use serde_json::{Value, json};
use unrack_protocol::tcp::Congestion;
use unrack_protocol::{cxl, dcqcn, dctcp, fastpass, homa, ndp, pfabric, phost, tcp};
use unrack_sim::FabricConfig;
use unrack_sim::fabric::edm::{EdmConfig, SchedulingOrder};
use unrack_units::{Bytes, Fraction, Rate, Time};

/// Fabrics that the reference knows.
pub(crate) const FABRICS: [&str; 12] = [
    "ideal",
    "edm",
    "cxl",
    "tcp",
    "dctcp",
    "pfabric",
    "phost",
    "homa",
    "ird",
    "ndp",
    "fastpass",
    "pfc-dcqcn",
];

pub(crate) fn draw(fabric: &str, draw: &mut Draw, scale: &Scale) -> (FabricConfig, Value) {
    match fabric {
        "ideal" => (FabricConfig::new::<Ideal>(NoParams {}), json!({})),
        "edm" => (
            FabricConfig::new::<Edm>(EdmConfig { policy: SchedulingOrder::Srpt, ..EdmConfig::default() }),
            json!({}),
        ),
        "tcp" | "dctcp" => streams(fabric, draw),
        "pfabric" => {
            let rto = patience(draw, scale);
            let params = pfabric::Params { rto, ..Default::default() };
            (FabricConfig::new::<Pfabric>(params), json!({ "timeout_ps": ps(rto) }))
        }
        "phost" => {
            let timeout = patience(draw, scale);
            let token_expiry = draw.flip().then(|| draw.odd(Time::from_ns(100)));
            let params = phost::Params { timeout, token_expiry, ..Default::default() };
            let told = json!({ "timeout_ps": ps(timeout), "token_expiry_ps": ps(token_expiry) });
            (FabricConfig::new::<Phost>(params), told)
        }
        "homa" => {
            let resend = Some(patience(draw, scale).unwrap_or(draw.odd(Time::from_us(2_000))));
            let params = homa::Params { resend, ..Default::default() };
            (FabricConfig::new::<Homa>(params), json!({ "timeout_ps": ps(resend) }))
        }
        "ndp" => {
            let rto = Some(patience(draw, scale).unwrap_or(draw.odd(Time::from_us(1_000))));
            let data_packets = draw.one(&[1, 2, 8]);
            let params = ndp::Params { rto, data_packets, ..Default::default() };
            (FabricConfig::new::<Ndp>(params), json!({ "timeout_ps": ps(rto), "data_packets": data_packets }))
        }
        "cxl" => cxl(draw),
        "ird" => (FabricConfig::new::<Ird>(NoParams {}), json!({})),
        "fastpass" => fastpass(draw, scale),
        "pfc-dcqcn" => pfc_dcqcn(draw, scale),
        _ => unreachable!("no parameters for {fabric}"),
    }
}

fn cxl(draw: &mut Draw) -> (FabricConfig, Value) {
    let params = cxl::Params {
        flit: draw.one(&[cxl::Flit::B68, cxl::Flit::B256]),
        credits: draw.one(&[1, 4, 64]),
        outstanding: draw.one(&[1, 16, 256]),
        hop: Time::from_ps(draw.one(&[100_000, 33_333])),
        port: Time::from_ps(draw.one(&[0, 12_500])),
        run: 1,
        ..cxl::Params::default()
    };
    let told = json!({
        "flit": params.flit.bytes().get(), "credits": params.credits, "outstanding": params.outstanding,
        "hop_ps": params.hop.as_ps(), "port_ps": params.port.as_ps(),
    });
    (FabricConfig::new::<Cxl>(params), told)
}

fn fastpass(draw: &mut Draw, scale: &Scale) -> (FabricConfig, Value) {
    let timeout = Some(patience(draw, scale).unwrap_or(draw.odd(Time::from_us(1_000))));
    let params = fastpass::Params {
        arbiter_rate: Rate::from_gbps(draw.one(&[10, 25, 100])),
        processing: Time::from_ns(draw.one(&[0, 50])),
        batch: draw.one(&[1, 3, 8, 64]),
        policy: fastpass::Policy::MaxMin,
        packing: draw.flip(),
        timeout,
    };
    let told = json!({
        "arbiter_rate_bps": params.arbiter_rate.as_bps(), "processing_ps": params.processing.as_ps(),
        "batch": params.batch, "timeout_ps": ps(timeout), "packing": params.packing,
    });
    (FabricConfig::new::<Fastpass>(params), told)
}

/// Draws parameters with timers that run out within the life of a short flow.
fn pfc_dcqcn(draw: &mut Draw, scale: &Scale) -> (FabricConfig, Value) {
    let fraction = |of| Fraction::new(of).expect("a fraction");
    let (p_max, gain) = (draw.one(&[0.01, 0.3, 1.0]), draw.one(&[1.0 / 256.0, 0.3]));
    let k_min = draw.one(&[0, 1, 5]) * scale.packet;
    let params = dcqcn::Params {
        k_min: Bytes::new(k_min),
        k_max: Bytes::new(k_min + draw.one(&[0, 2, 20]) * scale.packet),
        p_max: fraction(p_max),
        notification_interval: Time::from_us(draw.one(&[1, 10, 50])),
        alpha_timer: draw.odd(Time::from_us(2)),
        increase_timer: draw.odd(Time::from_us(3)),
        byte_counter: Bytes::new(draw.one(&[10_000, 100_000, 10_000_000])),
        gain: fraction(gain),
        fast_recovery: draw.one(&[1, 5]),
        keep_target: draw.flip(),
        additive_increase: Rate::from_bps(40_000_000),
        hyper_increase: Rate::from_bps(400_000_000),
        rto: Some(patience(draw, scale).unwrap_or(draw.odd(dcqcn::LEAST_RTO))),
    };
    let told = json!({
        "k_min": params.k_min.get(), "k_max": params.k_max.get(), "p_max": p_max, "gain": gain,
        "notification_interval_ps": params.notification_interval.as_ps(),
        "alpha_timer_ps": params.alpha_timer.as_ps(), "increase_timer_ps": params.increase_timer.as_ps(),
        "byte_counter": params.byte_counter.get(), "fast_recovery": params.fast_recovery,
        "keep_target": params.keep_target,
        "additive_increase": params.additive_increase.as_bps(),
        "hyper_increase": params.hyper_increase.as_bps(), "timeout_ps": ps(params.rto),
    });
    (FabricConfig::new::<PfcDcqcn>(params), told)
}

/// Draws a timeout: `None` for the default, or enough for a few round trips.
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
        "tcp" => FabricConfig::new::<Tcp>(tcp::Params {
            congestion: Congestion::NewReno,
            initial_window,
            min_rto,
            ..tcp::Params::default()
        }),
        _ => FabricConfig::new::<Dctcp>(dctcp::Params {
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
