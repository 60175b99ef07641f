//! Limits the requests for SAs to the IKE daemon.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering;

use gantry_abi_xfrm::Mode;

use crate::packet::ip::Flow;
use crate::table::{InstalledPolicy, required_template};

/// Milliseconds between two requests for the SA of a policy; in transport mode, for the SA of a policy and a peer.
const ACQUIRE_INTERVAL_MS: u64 = 1000;
/// Maximum number of requests of a thread for peers of transport mode within `ACQUIRE_INTERVAL_MS`.
const MAX_PEERS: usize = 1024;

/// The requests of a thread for SAs of transport mode: their times in milliseconds, by the index of the policy, source and destination.
#[derive(Debug, Default)]
pub(crate) struct AcquireLimiter(HashMap<(u32, IpAddr, IpAddr), u64>);

impl AcquireLimiter {
    /// Returns whether an SA for this flow may be requested at the time `now`, in milliseconds from 1 on, and remembers the request. In
    /// transport mode each peer has its own SA, so packets to one peer do not delay the request for another.
    pub(crate) fn try_request(&mut self, policy: &InstalledPolicy, flow: &Flow, now: u64) -> bool {
        let is_past = |last: u64| last == 0 || now.saturating_sub(last) >= ACQUIRE_INTERVAL_MS;
        if required_template(&policy.policy).is_none_or(|template| template.mode != Mode::Transport) {
            let may_request = is_past(policy.last_request_ms.load(Ordering::Relaxed));
            if may_request {
                policy.last_request_ms.store(now, Ordering::Relaxed);
            }
            return may_request;
        }
        let key = (policy.policy.index, flow.source, flow.destination);
        if self.0.len() >= MAX_PEERS {
            self.0.retain(|_, last| !is_past(*last));
        }
        let may_request = match self.0.get(&key) {
            Some(last) => is_past(*last),
            None => self.0.len() < MAX_PEERS,
        };
        if may_request {
            self.0.insert(key, now);
        }
        may_request
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
        for (mode, may_request_other) in [(Mode::Tunnel, false), (Mode::Transport, true)] {
            let (mut limiter, policy) = (AcquireLimiter::default(), policy(mode));
            assert!(limiter.try_request(&policy, &flow(2), 1));
            assert!(!limiter.try_request(&policy, &flow(2), ACQUIRE_INTERVAL_MS));
            assert_eq!(limiter.try_request(&policy, &flow(3), ACQUIRE_INTERVAL_MS), may_request_other, "{mode:?}");
            assert!(limiter.try_request(&policy, &flow(2), ACQUIRE_INTERVAL_MS + 1));
        }
    }

    #[test]
    fn the_number_of_peers_in_an_interval_is_limited() {
        let (mut limiter, policy) = (AcquireLimiter::default(), policy(Mode::Transport));
        let count_requests = |limiter: &mut AcquireLimiter, now| {
            (0..2 * MAX_PEERS as u32).filter(|peer| limiter.try_request(&policy, &flow(*peer), now)).count()
        };
        assert_eq!(count_requests(&mut limiter, 1), MAX_PEERS);
        assert_eq!(count_requests(&mut limiter, 2), 0);
        assert_eq!(count_requests(&mut limiter, 1 + ACQUIRE_INTERVAL_MS), MAX_PEERS);
    }
}
