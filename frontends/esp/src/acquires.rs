//! Limits the requests for SAs to the IKE daemon.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering;

use gantry_abi_xfrm::Mode;

use crate::packet::ip::Flow;
use crate::table::{InstalledPolicy, template};

/// Milliseconds between two requests for the SA of a policy; in transport mode, for the SA of a policy and a peer.
const INTERVAL: u64 = 1000;
/// Maximum number of requests of a thread for peers of transport mode within `INTERVAL`.
const PEERS: usize = 1024;

/// The requests of a thread for SAs of transport mode: their times in milliseconds, by the index of the policy, source and destination.
#[derive(Debug, Default)]
pub(crate) struct Acquires(HashMap<(u32, IpAddr, IpAddr), u64>);

impl Acquires {
    /// Returns whether an SA for this flow may be requested at the time `now`, in milliseconds from 1 on, and remembers the request. In
    /// transport mode each peer has its own SA, so packets to one peer do not delay the request for another.
    pub(crate) fn is_due(&mut self, policy: &InstalledPolicy, flow: &Flow, now: u64) -> bool {
        let is_past = |last: u64| last == 0 || now.saturating_sub(last) >= INTERVAL;
        if template(&policy.policy).is_none_or(|template| template.mode != Mode::Transport) {
            let is_due = is_past(policy.last_request.load(Ordering::Relaxed));
            if is_due {
                policy.last_request.store(now, Ordering::Relaxed);
            }
            return is_due;
        }
        let key = (policy.policy.index, flow.source, flow.destination);
        if self.0.len() >= PEERS {
            self.0.retain(|_, last| !is_past(*last));
        }
        let is_due = match self.0.get(&key) {
            Some(last) => is_past(*last),
            None => self.0.len() < PEERS,
        };
        if is_due {
            self.0.insert(key, now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::control::steering::tests;

    fn policy(mode: Mode) -> InstalledPolicy {
        let mut policy = Arc::into_inner(tests::policy("0.0.0.0/0", "0.0.0.0/0", 1, true)).unwrap();
        policy.policy.templates[0].mode = mode;
        policy
    }

    fn flow(peer: u32) -> Flow {
        let [source, destination] = [1, peer].map(|address: u32| IpAddr::V4(address.into()));
        Flow { source, destination, protocol: 17, source_port: 1701, destination_port: 1701 }
    }

    #[test]
    fn a_policy_asks_once_in_an_interval_and_in_transport_mode_for_each_peer() {
        for (mode, other_is_due) in [(Mode::Tunnel, false), (Mode::Transport, true)] {
            let (mut acquires, policy) = (Acquires::default(), policy(mode));
            assert!(acquires.is_due(&policy, &flow(2), 1));
            assert!(!acquires.is_due(&policy, &flow(2), INTERVAL));
            assert_eq!(acquires.is_due(&policy, &flow(3), INTERVAL), other_is_due, "{mode:?}");
            assert!(acquires.is_due(&policy, &flow(2), INTERVAL + 1));
        }
    }

    #[test]
    fn the_number_of_peers_in_an_interval_is_limited() {
        let (mut acquires, policy) = (Acquires::default(), policy(Mode::Transport));
        let due = |acquires: &mut Acquires, now| {
            (0..2 * PEERS as u32).filter(|peer| acquires.is_due(&policy, &flow(*peer), now)).count()
        };
        assert_eq!(due(&mut acquires, 1), PEERS);
        assert_eq!(due(&mut acquires, 2), 0);
        assert_eq!(due(&mut acquires, 1 + INTERVAL), PEERS);
    }
}
