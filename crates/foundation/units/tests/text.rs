//! Quantities parse from and print to text exactly, and refusals are clear.

use proptest::prelude::*;
use unrack_units::{Bytes, Fraction, Rate, Share, Time};

proptest! {
    #[test]
    fn what_is_printed_reads_back_the_same(n in any::<u64>()) {
        prop_assert_eq!(Time::from_ps(n).to_string().parse(), Ok(Time::from_ps(n)));
        prop_assert_eq!(Bytes::new(n).to_string().parse(), Ok(Bytes::new(n)));
        let rate = Rate::from_bps(n.max(1));
        prop_assert_eq!(rate.to_string().parse(), Ok(rate));
    }

    #[test]
    fn fractions_read_back_the_same(x in 0.0..=1.0f64) {
        let fraction = Fraction::new(x).unwrap();
        prop_assert_eq!(fraction.to_string().parse(), Ok(fraction));
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,24}") {
        let _ = (text.parse::<Time>(), text.parse::<Bytes>(), text.parse::<Rate>(), text.parse::<Share>());
    }

    #[test]
    fn transmission_is_never_shorter_than_the_rate_allows(bits in 0..1u64 << 40, bps in 1..1u64 << 40) {
        let ps = Rate::from_bps(bps).transmit_bits(bits as u128).as_ps() as u128;
        let exact = bits as u128 * 1_000_000_000_000;
        prop_assert!(ps * bps as u128 >= exact || ps == u64::MAX as u128);
        prop_assert!(ps == 0 || (ps - 1) * (bps as u128) < exact);
    }
}

#[test]
fn common_forms() {
    assert_eq!("2.56ns".parse(), Ok(Time::from_ps(2560)));
    assert_eq!(Time::from_ps(299_520).to_string(), "299.52ns");
    assert_eq!("3us".parse(), Ok(Time::from_us(3)));
    assert_eq!("0".parse(), Ok(Time::ZERO));
    assert_eq!("4KiB".parse(), Ok(Bytes::new(4096)));
    assert_eq!("1.5GiB".parse(), Ok(Bytes::new(3 << 29)));
    assert_eq!("36kB".parse(), Ok(Bytes::new(36_000)));
    assert_eq!("100Gbps".parse(), Ok(Rate::from_gbps(100)));
    assert_eq!("25%".parse::<Fraction>().unwrap().get(), 0.25);
    assert_eq!("64MiB".parse(), Ok(Share::Size(Bytes::new(64 << 20))));
    assert_eq!(Rate::from_gbps(100).transmit(Bytes::new(64)), Time::from_ps(5120));
}

#[test]
fn refusals_say_what_would_do() {
    let message = |result: Result<Time, unrack_units::UnitError>| result.unwrap_err().to_string();
    assert_eq!(message("3".parse()), "`3` has no unit: write for example `3us`");
    assert_eq!(message("us".parse()), "`us` is not a quantity: write for example `3us`");
    assert_eq!(message("3ks".parse()), "`ks` in `3ks` is not a known unit: use one of ps, ns, us, ms, s");
    assert_eq!(message("0.0001ns".parse()), "`0.0001ns` is not a whole number of picoseconds");
    assert_eq!(message("99999999999999s".parse()), "`99999999999999s` is too large");
    assert_eq!("125%".parse::<Share>().unwrap_err().to_string(), "`125%` is outside 0% to 100%");
    assert!("0Gbps".parse::<Rate>().is_err());
}

/// Units as people and other programs write them are refused with the quantity that was probably meant.
#[test]
fn refusals_propose_the_unit_that_was_meant() {
    fn proposed<T: std::str::FromStr<Err = unrack_units::UnitError> + std::fmt::Debug>(text: &str) -> String {
        let said = text.parse::<T>().unwrap_err().to_string();
        said.split("did you mean ").nth(1).unwrap_or(&said).to_string()
    }
    for (wrong, right) in [
        ("100gbps", "100Gbps"),
        ("100GBPS", "100Gbps"),
        ("100Gb/s", "100Gbps"),
        ("100G", "100Gbps"),
        ("12.5GB/s", "100Gbps"),
        ("10Kbps", "10kbps"),
        ("10Mbp", "10Mbps"),
    ] {
        assert_eq!(proposed::<Rate>(wrong), format!("`{right}`?"), "{wrong}");
    }
    for (wrong, right) in [
        ("64mib", "64MiB"),
        ("64M", "64MiB"),
        ("64k", "64KiB"),
        ("64mb", "64MB"),
        ("64KB", "64kB"),
        ("64Mi", "64MiB"),
        ("64bytes", "64B"),
    ] {
        assert_eq!(proposed::<Bytes>(wrong), format!("`{right}`?"), "{wrong}");
    }
    for (wrong, right) in
        [("3US", "3us"), ("3usec", "3us"), ("2h", "120min"), ("5mins", "5min"), ("3μs", "3us")]
    {
        assert_eq!(proposed::<Time>(wrong), format!("`{right}`?"), "{wrong}");
    }
    for (wrong, right) in [
        ("25", "`25%`, or a size such as `25MiB`?"),
        ("300", "a size such as `300MiB`?"),
        ("25mib", "`25MiB`?"),
        ("25M", "`25MiB`?"),
    ] {
        assert_eq!(proposed::<Share>(wrong), right, "{wrong}");
    }
    assert_eq!(proposed::<Fraction>("60"), "`60%`?");
    assert_eq!(proposed::<Fraction>("-1"), "`-1` is outside 0% to 100%");
}

#[test]
fn decimal_sizes_have_a_binary_twin() {
    let twin = |text: &str| text.parse::<Bytes>().unwrap().in_binary_unit().map(|twin| twin.to_string());
    assert_eq!(twin("64MB"), Some("64MiB".into()));
    assert_eq!(twin("1GB"), Some("1GiB".into()));
    assert_eq!(twin("2500kB"), Some("2500KiB".into()));
    assert_eq!((twin("64MiB"), twin("0")), (None, None));
    let whole = |text: &str| text.parse::<Bytes>().unwrap().in_whole(Bytes::new(2 << 20)).to_string();
    for (written, meant) in
        [("64MB", "64MiB"), ("3MiB", "4MiB"), ("3MB", "4MiB"), ("0", "2MiB"), ("1GB", "1GiB")]
    {
        assert_eq!(whole(written), meant, "{written}");
    }
}
