//! The policies as the firewall looks them up, in layers: a layer consists of consecutive policies with the same effect.
//!
//! Within a layer the order does not matter, so each layer is a few hash tables, one for each [`Shape`] of selectors. Most hosts have one
//! layer or two: policies that let packets pass, and policies of tunnels after them.

use std::collections::{BTreeMap, HashMap};

use gantry_abi_xfrm::{Direction, Selector};

use super::rules::{self, DELSETELEM, NEWSETELEM, Rule};
use super::shape::Shape;
use crate::table::PolicyOrder;

/// The parts of a policy that determine the packets' way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SteeredPolicy {
    pub(crate) selector: Selector,
    pub(crate) direction: Direction,
    /// The position among all policies.
    pub(crate) order: PolicyOrder,
    /// True if the policy's packets pass unprotected. If false, outgoing packets enter the tunnel's device, and incoming packets may not
    /// arrive in clear.
    pub(crate) passes: bool,
}

/// A change of the table of the firewall.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Only elements of existing sets change. The messages add and delete them.
    Elements(Vec<Vec<u8>>),
    /// The rules change in addition to the sets.
    Whole,
}

/// The keys of a set, each with the number of policies that have the key.
type KeyCounts = HashMap<Vec<u8>, usize>;

#[derive(Debug)]
struct Layer {
    passes: bool,
    /// The first and the last policy.
    first: PolicyOrder,
    last: PolicyOrder,
    sets: BTreeMap<Shape, KeyCounts>,
}

/// The policies of a direction.
#[derive(Debug)]
pub(super) struct Layers {
    direction: Direction,
    policies: BTreeMap<PolicyOrder, SteeredPolicy>,
    layers: Vec<Layer>,
    /// Selectors of an earlier data path. Packets of such a selector may not pass until a policy replaces the selector.
    leftovers: BTreeMap<Shape, KeyCounts>,
}

impl Layers {
    pub(super) fn new(direction: Direction) -> Self {
        Self { direction, policies: BTreeMap::new(), layers: Vec::new(), leftovers: BTreeMap::new() }
    }

    /// Adds a selector of an earlier data path.
    pub(super) fn add_leftover(&mut self, shape: Shape, key: Vec<u8>) {
        self.leftovers.entry(shape).or_default().insert(key, 1);
    }

    /// Replaces a policy by another one. `None` stands for no policy.
    pub(super) fn replace(&mut self, old: Option<&SteeredPolicy>, new: Option<&SteeredPolicy>) -> Change {
        if old == new {
            return Change::Elements(Vec::new());
        }
        // A new policy that replaces an old one is not a further element: it may have another effect.
        let is_same_order = old.zip(new).is_some_and(|(old, new)| old.order == new.order);
        old.map(|old| self.policies.remove(&old.order));
        new.map(|new| self.policies.insert(new.order, *new));
        let mut messages = Vec::new();
        // Additions come first, so that a key of both policies stays.
        let is_done = !is_same_order
            && new.is_none_or(|new| self.add(new, &mut messages).is_some())
            && old.is_none_or(|old| self.remove(old, &mut messages).is_some());
        if is_done {
            return Change::Elements(messages);
        }
        self.rebuild_layers();
        Change::Whole
    }

    /// Returns the selectors of an earlier data path that this policy replaces.
    pub(super) fn leftovers_of(&self, policy: Option<&SteeredPolicy>) -> Vec<(Shape, Vec<u8>)> {
        let is_leftover =
            |(shape, key): &(Shape, Vec<u8>)| self.leftovers.get(shape).is_some_and(|keys| keys.contains_key(key));
        policy.into_iter().flat_map(shapes_and_keys).filter(is_leftover).collect()
    }

    /// Undoes a replacement that the kernel refused, and restores the leftovers.
    pub(super) fn undo(
        &mut self,
        old: Option<&SteeredPolicy>,
        new: Option<&SteeredPolicy>,
        leftovers: Vec<(Shape, Vec<u8>)>,
    ) {
        self.replace(new, old);
        for (shape, key) in leftovers {
            self.add_leftover(shape, key);
        }
    }

    /// Replaces all policies by the policies of this direction in `policies`.
    pub(super) fn replace_all(&mut self, policies: impl Iterator<Item = SteeredPolicy>) {
        let policies = policies.filter(|policy| policy.direction == self.direction);
        self.policies = policies.map(|policy| (policy.order, policy)).collect();
        self.rebuild_layers();
    }

    /// Adds a policy to existing sets. Returns `None` if there is no set for it.
    fn add(&mut self, policy: &SteeredPolicy, messages: &mut Vec<Vec<u8>>) -> Option<()> {
        let at = self.layer_for(policy)?;
        for (shape, key) in shapes_and_keys(policy) {
            let layer = &mut self.layers[at];
            let count = layer.sets.get_mut(&shape)?.entry(key.clone()).or_default();
            *count += 1;
            if *count == 1 {
                let set = self.set_name(at, policy.passes, &shape);
                messages.extend(rules::element_messages(NEWSETELEM, &set, [&key[..]].into_iter()));
            }
            if !policy.passes && self.leftovers.get_mut(&shape).is_some_and(|keys| keys.remove(&key).is_some()) {
                messages.extend(rules::element_messages(
                    DELSETELEM,
                    &self.leftover_name(&shape),
                    [&key[..]].into_iter(),
                ));
            }
        }
        let layer = &mut self.layers[at];
        (layer.first, layer.last) = (layer.first.min(policy.order), layer.last.max(policy.order));
        Some(())
    }

    /// Removes a policy from its sets. Returns `None` if a set or its key is missing.
    fn remove(&mut self, policy: &SteeredPolicy, messages: &mut Vec<Vec<u8>>) -> Option<()> {
        let at = self.layers.partition_point(|layer| layer.first <= policy.order).checked_sub(1)?;
        for (shape, key) in shapes_and_keys(policy) {
            let keys = self.layers[at].sets.get_mut(&shape)?;
            let count = keys.get_mut(&key)?;
            *count -= 1;
            if *count == 0 {
                keys.remove(&key);
                let set = self.set_name(at, policy.passes, &shape);
                messages.extend(rules::element_messages(DELSETELEM, &set, [&key[..]].into_iter()));
            }
        }
        Some(())
    }

    /// Returns the layer that a new policy may join without a change of the order.
    fn layer_for(&self, policy: &SteeredPolicy) -> Option<usize> {
        let next = self.layers.partition_point(|layer| layer.first <= policy.order);
        let previous = next.checked_sub(1).map(|at| (at, &self.layers[at]));
        match previous {
            Some((at, layer)) if layer.passes == policy.passes => return Some(at),
            Some((_, layer)) if policy.order <= layer.last => return None,
            _ => {}
        }
        self.layers.get(next).filter(|layer| layer.passes == policy.passes).map(|_| next)
    }

    fn rebuild_layers(&mut self) {
        self.layers.clear();
        for policy in self.policies.values() {
            if self.layers.last().is_none_or(|layer| layer.passes != policy.passes) {
                let (passes, first) = (policy.passes, policy.order);
                self.layers.push(Layer { passes, first, last: first, sets: BTreeMap::new() });
            }
            let Some(layer) = self.layers.last_mut() else { continue };
            layer.last = policy.order;
            for (shape, key) in shapes_and_keys(policy) {
                if let Some(keys) = self.leftovers.get_mut(&shape).filter(|_| !policy.passes) {
                    keys.remove(&key);
                }
                *layer.sets.entry(shape).or_default().entry(key).or_default() += 1;
            }
        }
        self.leftovers.retain(|_, keys| !keys.is_empty());
    }

    /// Iterates over the sets in the order of the look-up: the name, whether its packets pass, the shape and the keys.
    fn sets(&self) -> impl Iterator<Item = (String, bool, &Shape, &KeyCounts)> {
        let layers = self.layers.iter().enumerate().flat_map(move |(at, layer)| {
            let Layer { passes, sets, .. } = layer;
            sets.iter().map(move |(shape, keys)| (self.set_name(at, *passes, shape), *passes, shape, keys))
        });
        layers.chain(self.leftovers.iter().map(move |(shape, keys)| (self.leftover_name(shape), false, shape, keys)))
    }

    fn set_name(&self, layer: usize, passes: bool, shape: &Shape) -> String {
        let effect = if passes { PASS } else { PROTECT };
        format!("{}_{effect}_{layer}_{}", DIRECTIONS[self.direction as usize], shape.name())
    }

    fn leftover_name(&self, shape: &Shape) -> String {
        format!("{}_{LEFTOVER}_{}", DIRECTIONS[self.direction as usize], shape.name())
    }

    /// Returns the messages that create the sets. No other set of the transaction has a number of `ids`.
    pub(super) fn set_messages(&self, ids: &mut impl Iterator<Item = u32>) -> Vec<Vec<u8>> {
        let messages = |((name, _, shape, keys), id): ((String, _, &Shape, &KeyCounts), _)| {
            shape.set_messages(&name, keys.keys().map(Vec::as_slice), id)
        };
        self.sets().zip(ids).flat_map(messages).collect()
    }

    /// Returns the rules of a chain. `end` adds the effect of policies: its second argument is true if their
    /// packets pass.
    pub(super) fn rules(&self, looks_at_interface: bool, end: impl Fn(Rule, bool) -> Rule) -> Vec<Rule> {
        let rules = self.sets().flat_map(|(name, passes, shape, _)| {
            shape.rules(&name, looks_at_interface).into_iter().map(move |rule| (rule, passes))
        });
        rules.map(|(rule, passes)| end(rule, passes)).collect()
    }
}

/// Returns the shapes and keys of a policy.
fn shapes_and_keys(policy: &SteeredPolicy) -> impl Iterator<Item = (Shape, Vec<u8>)> {
    let shape = Shape::of(&policy.selector);
    // The ports of later fragments are unknown here. All outgoing later fragments enter the tunnel's device, so that none leaves in clear.
    // Incoming later fragments pass if packets of any port may pass: no host reassembles them without the first fragment, which has ports.
    let fragments = shape.of_fragments().filter(|_| policy.passes != (policy.direction == Direction::Out));
    let selector = policy.selector;
    [Some(shape), fragments].into_iter().flatten().map(move |shape| (shape, shape.key(&selector)))
}

/// The first parts of the names of sets, by the direction and the effect of their policies.
const DIRECTIONS: [&str; 3] = ["in", "out", "forward"];
const PASS: &str = "pass";
const PROTECT: &str = "protect";
const LEFTOVER: &str = "leftover";

/// Returns the direction, as a number, and the shape of a set whose packets do not pass.
pub(super) fn parse_set_name(set: &str) -> Option<(usize, Shape)> {
    let (direction, set) = set.split_once('_')?;
    let direction = DIRECTIONS.iter().position(|name| *name == direction)?;
    let shape = match set.split_once('_')? {
        (LEFTOVER, shape) => Shape::parse(shape),
        (PROTECT, rest) => Shape::parse(rest.split_once('_')?.1),
        _ => None,
    };
    Some((direction, shape?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::steering::parse_network;
    use gantry_abi_xfrm::{Family, Port};

    fn policy(priority: u32, arrival: u32, to: &str, passes: bool) -> SteeredPolicy {
        let selector = Selector { destination: parse_network(to).unwrap(), ..Selector::any(Family::Ipv4) };
        SteeredPolicy { selector, direction: Direction::Out, order: (priority, arrival), passes }
    }

    fn counts(layers: &Layers) -> Vec<(bool, usize)> {
        let of = |layer: &Layer| (layer.passes, layer.sets.values().map(HashMap::len).sum());
        layers.layers.iter().map(of).collect()
    }

    fn elements(change: &Change) -> Option<usize> {
        match change {
            Change::Elements(messages) => Some(messages.len()),
            Change::Whole => None,
        }
    }

    #[test]
    fn a_further_policy_is_one_element() {
        let mut layers = Layers::new(Direction::Out);
        let policy = |arrival: u32| policy(9, arrival, &format!("10.2.{arrival}.0/24"), false);
        assert_eq!(layers.replace(None, Some(&policy(0))), Change::Whole);
        for arrival in 1..100 {
            assert_eq!(elements(&layers.replace(None, Some(&policy(arrival)))), Some(1));
        }
        assert_eq!(counts(&layers), [(false, 100)]);
        for arrival in 0..100 {
            assert_eq!(elements(&layers.replace(Some(&policy(arrival)), None)), Some(1));
        }
        assert_eq!(counts(&layers), [(false, 0)]);
    }

    #[test]
    fn layers_follow_the_priorities() {
        let mut layers = Layers::new(Direction::Out);
        let tunnel = |priority, arrival| policy(priority, arrival, "10.0.0.0/8", false);
        let pass = |priority, arrival| policy(priority, arrival, "10.2.0.0/16", true);
        for policy in [tunnel(10, 1), tunnel(30, 2), pass(40, 3)] {
            layers.replace(None, Some(&policy));
        }
        assert_eq!(counts(&layers), [(false, 1), (true, 1)], "two policies of one selector");
        assert_eq!(layers.replace(None, Some(&pass(20, 4))), Change::Whole, "it divides a layer");
        assert_eq!(counts(&layers), [(false, 1), (true, 1), (false, 1), (true, 1)]);
        assert_eq!(elements(&layers.replace(Some(&tunnel(10, 1)), None)), Some(1));
        // Policies of one priority keep their order.
        layers.replace_all([pass(7, 2), tunnel(7, 1), tunnel(7, 3)].into_iter());
        assert_eq!(counts(&layers), [(false, 1), (true, 1), (false, 1)]);
    }

    #[test]
    fn an_update_with_the_same_effect_changes_nothing() {
        let mut layers = Layers::new(Direction::Out);
        layers.replace(None, Some(&policy(10, 1, "10.2.0.0/16", false)));
        let (old, new) = (policy(10, 1, "10.2.0.0/16", false), policy(5, 1, "10.2.0.0/16", false));
        assert_eq!(elements(&layers.replace(Some(&old), Some(&new))), Some(0));
        let passing = SteeredPolicy { passes: true, ..new };
        assert_eq!(layers.replace(Some(&new), Some(&passing)), Change::Whole);
        assert_eq!(counts(&layers), [(true, 1)]);
    }

    #[test]
    fn later_fragments_that_leave_are_held_and_those_that_arrive_may_pass() {
        let mut ports = policy(10, 1, "10.2.0.0/16", false);
        (ports.selector.protocol, ports.selector.destination_port) = (17, Port { value: 5060, mask: 0xFFFF });
        for (direction, held, passing) in [(Direction::Out, 2, 1), (Direction::In, 1, 2), (Direction::Forward, 1, 2)] {
            let mut layers = Layers::new(direction);
            for (passes, sets) in [(false, held), (true, passing)] {
                (ports.direction, ports.passes) = (direction, passes);
                layers.replace_all([ports].into_iter());
                assert_eq!(counts(&layers), [(passes, sets)], "{direction:?}");
            }
        }
    }

    #[test]
    fn each_direction_has_sets_of_its_own() {
        let all = [Direction::In, Direction::Out, Direction::Forward]
            .map(|direction| SteeredPolicy { direction, ..policy(10, direction as u32, "10.2.0.0/16", false) });
        for direction in [Direction::In, Direction::Out, Direction::Forward] {
            let mut layers = Layers::new(direction);
            layers.replace_all(all.into_iter());
            let sets: Vec<_> = layers.sets().map(|(name, _, shape, _)| (parse_set_name(&name), *shape)).collect();
            let shape = Shape::of(&all[0].selector);
            assert_eq!(sets, [(Some((direction as usize, shape)), shape)]);
            layers.add_leftover(Shape::of(&Selector::any(Family::Ipv6)), vec![0x60, 0, 0, 0]);
            assert!(
                layers.sets().all(|(name, ..)| parse_set_name(&name).is_some_and(|(at, _)| at == direction as usize))
            );
            layers.replace_all([].into_iter());
            assert_eq!(layers.sets().count(), 1, "the leftover");
        }
        assert_eq!(["protect_0_4_0_0_0_0_0_0_0", "in_pass_0_4_0_0_0_0_0_0_0"].map(parse_set_name), [None; 2]);
    }

    #[test]
    fn leftovers_stay_until_a_policy_takes_their_place() {
        let mut layers = Layers::new(Direction::Out);
        for to in ["10.2.0.0/16", "10.3.0.0/16"] {
            let shape = Shape::of(&policy(0, 0, to, false).selector);
            layers.add_leftover(shape, shape.key(&policy(0, 0, to, false).selector));
        }
        let before = layers.leftovers.clone();
        let refused = Some(policy(10, 1, "10.2.0.0/16", false));
        let leftovers = layers.leftovers_of(refused.as_ref());
        layers.replace(None, refused.as_ref());
        assert_ne!(layers.leftovers, before);
        layers.undo(None, refused.as_ref(), leftovers);
        assert_eq!(layers.leftovers, before, "the kernel refused the policy");
        layers.replace(None, Some(&policy(10, 1, "10.2.0.0/16", false)));
        assert_eq!(layers.sets().count(), 2);
        assert_eq!(layers.leftovers.values().map(HashMap::len).sum::<usize>(), 1);
        assert_eq!(elements(&layers.replace(None, Some(&policy(10, 2, "10.3.0.0/16", false)))), Some(2));
    }
}
