//! Routes that policies give to this host's own packets.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use super::{FALLBACK_TABLE, SOURCES_TABLE};

/// A network: its address and prefix length.
type Network = (IpAddr, u8);
/// The identity of a route: its table and its destination.
type Place = (u32, Network);

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
    fn place(&self) -> Place {
        (if self.precedes { SOURCES_TABLE } else { FALLBACK_TABLE }, self.destination)
    }
}

/// The routes of all policies, by the policies' indexes. Policies with the same destination share the route of the policy with the
/// lowest index.
#[derive(Debug, Default)]
pub(super) struct PolicyRoutes {
    by_policy: HashMap<u32, PolicyRoute>,
    by_place: BTreeMap<Place, BTreeMap<u32, PolicyRoute>>,
}

impl PolicyRoutes {
    /// Replaces the route of a policy. Returns the tables and destinations of routes to be added, changed or deleted, in this order.
    pub(super) fn replace(&mut self, policy: u32, new: Option<PolicyRoute>) -> Vec<Place> {
        let old = self.by_policy.remove(&policy);
        let places = [new, old].map(|route| route.map(|route| route.place()));
        let old_routes = places.map(|place| place.and_then(|place| self.route(place).copied()));
        if let Some((old, routes)) = old.and_then(|old| Some((old.place(), self.by_place.get_mut(&old.place())?))) {
            routes.remove(&policy);
            if routes.is_empty() {
                self.by_place.remove(&old);
            }
        }
        if let Some(new) = new {
            self.by_policy.insert(policy, new);
            self.by_place.entry(new.place()).or_default().insert(policy, new);
        }
        let changed = places.into_iter().zip(old_routes).filter_map(|(place, old_route)| {
            let place = place?;
            (self.route(place).copied() != old_route).then_some(place)
        });
        let mut changed: Vec<Place> = changed.collect();
        changed.dedup();
        changed
    }

    /// Returns whether a policy has a route.
    pub(super) fn has(&self, policy: u32) -> bool {
        self.by_policy.contains_key(&policy)
    }

    /// Returns the route to a destination in a table.
    pub(super) fn route(&self, place: Place) -> Option<&PolicyRoute> {
        self.by_place.get(&place)?.first_key_value().map(|(_, route)| route)
    }

    pub(super) fn places(&self) -> impl Iterator<Item = Place> {
        self.by_place.keys().copied()
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
        let place = |table| (table, ([10, 2, 0, 0].into(), 16));
        let mut routes = PolicyRoutes::default();
        assert_eq!(routes.replace(8, Some(route(1, false))), [place(FALLBACK_TABLE)]);
        assert_eq!(routes.replace(16, Some(route(2, false))), [], "the first one counts");
        assert_eq!(routes.replace(8, Some(route(1, false))), []);
        assert_eq!(routes.replace(8, None), [place(FALLBACK_TABLE)], "another source");
        assert_eq!(routes.route(place(FALLBACK_TABLE)), Some(&route(2, false)));
        // Additions come first.
        assert_eq!(routes.replace(16, Some(route(2, true))), [place(SOURCES_TABLE), place(FALLBACK_TABLE)]);
        assert!(routes.has(16) && !routes.has(8));
        assert_eq!(routes.replace(16, None), [place(SOURCES_TABLE)]);
        assert_eq!((routes.places().count(), routes.route(place(SOURCES_TABLE))), (0, None));
    }
}
