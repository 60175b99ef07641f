//! Routes that policies give to this host's own packets.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use super::{FALLBACK_TABLE, SOURCES_TABLE};

/// A network: its address and prefix length.
type Network = (IpAddr, u8);
/// The identity of a route: its table and its destination.
type RouteKey = (u32, Network);

/// A route to the destination of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PolicyRoute {
    pub(crate) destination: Network,
    /// The source address that the route gives to packets without one.
    pub(crate) source: Option<IpAddr>,
    /// True if the route precedes other routes for sockets without a source. False if it applies only to destinations without another
    /// route.
    pub(crate) precedes: bool,
}

impl PolicyRoute {
    fn key(&self) -> RouteKey {
        (if self.precedes { SOURCES_TABLE } else { FALLBACK_TABLE }, self.destination)
    }
}

/// The routes of all policies, by the policies' indexes. Policies with the same destination share the route of the policy with the
/// lowest index.
#[derive(Debug, Default)]
pub(super) struct PolicyRoutes {
    by_policy: HashMap<u32, PolicyRoute>,
    by_key: BTreeMap<RouteKey, BTreeMap<u32, PolicyRoute>>,
}

impl PolicyRoutes {
    /// Replaces the route of a policy. Returns the tables and destinations of routes to be added, changed or deleted, in this order.
    pub(super) fn replace(&mut self, policy: u32, new: Option<PolicyRoute>) -> Vec<RouteKey> {
        let old = self.by_policy.remove(&policy);
        let keys = [new, old].map(|route| route.map(|route| route.key()));
        let old_routes = keys.map(|key| key.and_then(|key| self.route(key).copied()));
        if let Some((old, routes)) = old.and_then(|old| Some((old.key(), self.by_key.get_mut(&old.key())?))) {
            routes.remove(&policy);
            if routes.is_empty() {
                self.by_key.remove(&old);
            }
        }
        if let Some(new) = new {
            self.by_policy.insert(policy, new);
            self.by_key.entry(new.key()).or_default().insert(policy, new);
        }
        let changed = keys.into_iter().zip(old_routes).filter_map(|(key, old_route)| {
            let key = key?;
            (self.route(key).copied() != old_route).then_some(key)
        });
        let mut changed: Vec<RouteKey> = changed.collect();
        changed.dedup();
        changed
    }

    /// Returns whether a policy has a route.
    pub(super) fn has_policy(&self, policy: u32) -> bool {
        self.by_policy.contains_key(&policy)
    }

    /// Returns the route to a destination in a table.
    pub(super) fn route(&self, key: RouteKey) -> Option<&PolicyRoute> {
        self.by_key.get(&key)?.first_key_value().map(|(_, route)| route)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = RouteKey> {
        self.by_key.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_with_one_destination_share_a_route() {
        let route = |last: u8, precedes| PolicyRoute {
            destination: ([10, 2, 0, 0].into(), 16),
            source: Some([10, 1, 0, last].into()),
            precedes,
        };
        let key = |table| (table, ([10, 2, 0, 0].into(), 16));
        let mut routes = PolicyRoutes::default();
        assert_eq!(routes.replace(8, Some(route(1, false))), [key(FALLBACK_TABLE)]);
        assert_eq!(routes.replace(16, Some(route(2, false))), [], "the first one counts");
        assert_eq!(routes.replace(8, Some(route(1, false))), []);
        assert_eq!(routes.replace(8, None), [key(FALLBACK_TABLE)], "another source");
        assert_eq!(routes.route(key(FALLBACK_TABLE)), Some(&route(2, false)));
        // Additions come first.
        assert_eq!(routes.replace(16, Some(route(2, true))), [key(SOURCES_TABLE), key(FALLBACK_TABLE)]);
        assert!(routes.has_policy(16) && !routes.has_policy(8));
        assert_eq!(routes.replace(16, None), [key(SOURCES_TABLE)]);
        assert_eq!((routes.keys().count(), routes.route(key(SOURCES_TABLE))), (0, None));
    }
}
