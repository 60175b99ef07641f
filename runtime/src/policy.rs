//! Policies by name.

use std::fmt;
use std::str::FromStr;

use gantry_core::route::{BreakEven, Failover, Learned, Pin, RoundRobin, SizeThreshold};
use gantry_core::{Gantry, Policy as _};

/// A policy of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyChoice {
    /// A policy that uses measured costs: latency, throughput or offload.
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
        /// The size in bytes from which a request is large.
        bytes: usize,
        /// The device for small requests.
        small: String,
        /// The device for large requests.
        large: String,
    },
}

impl PolicyChoice {
    /// The syntax of all policies.
    pub(crate) const ACCEPTED: &str = "latency, throughput, offload, break-even, pin:DEVICE, failover:DEVICE,DEVICE,..., \
                                       round-robin or size-threshold:BYTES,SMALL,LARGE";

    /// The names of all policies, without arguments.
    pub const NAMES: &[&str] =
        &["latency", "throughput", "offload", "break-even", "pin", "failover", "round-robin", "size-threshold"];

    /// Returns a framework with the same devices and this policy.
    #[must_use]
    pub fn apply_to(self, gantry: &Gantry) -> Gantry {
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

    /// Returns the policy with each device's name replaced by `name(device)`.
    #[must_use]
    pub(crate) fn map_devices(self, name: impl Fn(String) -> String) -> Self {
        match self {
            PolicyChoice::Pin(device) => PolicyChoice::Pin(name(device)),
            PolicyChoice::Failover(order) => PolicyChoice::Failover(order.into_iter().map(name).collect()),
            PolicyChoice::SizeThreshold { bytes, small, large } => {
                PolicyChoice::SizeThreshold { bytes, small: name(small), large: name(large) }
            }
            other @ (PolicyChoice::Learned(_) | PolicyChoice::BreakEven | PolicyChoice::RoundRobin) => other,
        }
    }

    /// Returns the devices named by the policy.
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

    /// Parses the name of a policy. If the policy takes arguments, a colon follows, and the arguments with commas between them. Names of
    /// devices may contain colons (`cuda:0`).
    fn from_str(text: &str) -> Result<Self, ()> {
        let (name, arguments) =
            text.split_once(':').map_or((text, Vec::new()), |(name, rest)| (name, rest.split(',').collect()));
        if arguments.contains(&"") {
            return Err(());
        }
        match (name, &arguments[..]) {
            ("latency", []) => Ok(PolicyChoice::Learned(Learned::Latency)),
            ("throughput", []) => Ok(PolicyChoice::Learned(Learned::Throughput)),
            ("offload", []) => Ok(PolicyChoice::Learned(Learned::Offload)),
            ("break-even", []) => Ok(PolicyChoice::BreakEven),
            ("round-robin", []) => Ok(PolicyChoice::RoundRobin),
            ("pin", [device]) => Ok(PolicyChoice::Pin((*device).to_owned())),
            ("failover", [_, ..]) => Ok(PolicyChoice::Failover(arguments.into_iter().map(str::to_owned).collect())),
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
    fn reads_every_policy_as_written() {
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
    fn refuses_policies_with_missing_or_extra_arguments() {
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
