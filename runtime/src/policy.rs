use std::fmt;
use std::str::FromStr;

use gantry_core::route::{BreakEven, Failover, Learned, Pin, RoundRobin, SizeThreshold};
use gantry_core::{Gantry, Policy as _};

/// A policy as the configuration names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyChoice {
    /// One that goes by measured costs: latency, throughput or offload.
    Learned(Learned),
    /// [`BreakEven`].
    BreakEven,
    /// [`Pin`].
    Pin(String),
    /// [`Failover`].
    Failover(Vec<String>),
    /// [`RoundRobin`].
    RoundRobin,
    /// [`SizeThreshold`].
    SizeThreshold {
        /// From how many bytes on a request is large.
        bytes: usize,
        /// The device for small requests.
        small: String,
        /// The device for large ones.
        large: String,
    },
}

impl PolicyChoice {
    /// How each one is written.
    pub(crate) const ACCEPTED: &str = "latency, throughput, offload, break-even, pin:DEVICE, failover:DEVICE,DEVICE,..., \
                                       round-robin or size-threshold:BYTES,SMALL,LARGE";

    /// Their names, without what follows a colon.
    pub const NAMES: &[&str] =
        &["latency", "throughput", "offload", "break-even", "pin", "failover", "round-robin", "size-threshold"];

    /// The same devices under this policy.
    #[must_use]
    pub fn over(self, gantry: &Gantry) -> Gantry {
        match self {
            PolicyChoice::Learned(policy) => gantry.with_policy(policy),
            PolicyChoice::BreakEven => gantry.with_policy(BreakEven),
            PolicyChoice::Pin(device) => gantry.with_policy(Pin { device }),
            PolicyChoice::Failover(order) => gantry.with_policy(Failover { order }),
            PolicyChoice::RoundRobin => gantry.with_policy(RoundRobin::default()),
            PolicyChoice::SizeThreshold { bytes, small, large } => {
                gantry.with_policy(SizeThreshold { bytes, small, large })
            }
        }
    }

    /// The same with other names of devices.
    #[must_use]
    pub(crate) fn named(self, name: impl Fn(String) -> String) -> Self {
        match self {
            PolicyChoice::Pin(device) => PolicyChoice::Pin(name(device)),
            PolicyChoice::Failover(order) => PolicyChoice::Failover(order.into_iter().map(name).collect()),
            PolicyChoice::SizeThreshold { bytes, small, large } => {
                PolicyChoice::SizeThreshold { bytes, small: name(small), large: name(large) }
            }
            nameless @ (PolicyChoice::Learned(_) | PolicyChoice::BreakEven | PolicyChoice::RoundRobin) => nameless,
        }
    }

    /// The devices that it names.
    pub fn devices(&self) -> Vec<&str> {
        match self {
            PolicyChoice::Learned(_) | PolicyChoice::BreakEven | PolicyChoice::RoundRobin => Vec::new(),
            PolicyChoice::Pin(device) => vec![device],
            PolicyChoice::Failover(order) => order.iter().map(String::as_str).collect(),
            PolicyChoice::SizeThreshold { small, large, .. } => vec![small, large],
        }
    }
}

impl FromStr for PolicyChoice {
    type Err = ();

    /// A name, and after a colon what it needs, with commas between. Names of devices may hold colons (`cuda:0`).
    fn from_str(text: &str) -> Result<Self, ()> {
        let (name, needs) =
            text.split_once(':').map_or((text, Vec::new()), |(name, rest)| (name, rest.split(',').collect()));
        if needs.contains(&"") {
            return Err(());
        }
        match (name, &needs[..]) {
            ("latency", []) => Ok(PolicyChoice::Learned(Learned::Latency)),
            ("throughput", []) => Ok(PolicyChoice::Learned(Learned::Throughput)),
            ("offload", []) => Ok(PolicyChoice::Learned(Learned::Offload)),
            ("break-even", []) => Ok(PolicyChoice::BreakEven),
            ("round-robin", []) => Ok(PolicyChoice::RoundRobin),
            ("pin", [device]) => Ok(PolicyChoice::Pin((*device).to_owned())),
            ("failover", [_, ..]) => Ok(PolicyChoice::Failover(needs.into_iter().map(str::to_owned).collect())),
            ("size-threshold", [bytes, small, large]) => Ok(PolicyChoice::SizeThreshold {
                bytes: bytes.parse().map_err(|_| ())?,
                small: (*small).to_owned(),
                large: (*large).to_owned(),
            }),
            _ => Err(()),
        }
    }
}

impl fmt::Display for PolicyChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PolicyChoice::Learned(policy) => f.write_str(policy.name()),
            PolicyChoice::BreakEven => f.write_str("break-even"),
            PolicyChoice::Pin(device) => write!(f, "pin:{device}"),
            PolicyChoice::Failover(order) => write!(f, "failover:{}", order.join(",")),
            PolicyChoice::RoundRobin => f.write_str("round-robin"),
            PolicyChoice::SizeThreshold { bytes, small, large } => write!(f, "size-threshold:{bytes},{small},{large}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_read_as_it_is_written() {
        for text in [
            "latency",
            "throughput",
            "offload",
            "break-even",
            "pin:cuda:0",
            "failover:lanes,software",
            "round-robin",
            "size-threshold:4096,software,cuda:0",
        ] {
            assert_eq!(text.parse::<PolicyChoice>().map(|choice| choice.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn a_policy_with_something_missing_or_too_much_is_none() {
        for text in [
            "",
            "pin",
            "pin:",
            "pin:a,b",
            "failover",
            "failover:a,,b",
            "break-even:lanes",
            "latency:lanes",
            "size-threshold:x,a,b",
            "size-threshold:1,a",
            "size-threshold:-1,a,b",
            "PIN:lanes",
        ] {
            assert_eq!(text.parse::<PolicyChoice>(), Err(()), "{text}");
        }
    }
}
