//! The work of a change does not grow with the number of SAs and policies.

use gantry_lab::memory::measure;

use super::*;

/// Counts the bytes that `count` tunnels allocate while they come, change and go: two SAs and three policies each.
fn work(gantry: &Gantry, count: u32) -> usize {
    let mut associations = Associations::new(gantry.clone(), 4500).unwrap();
    let mut policies = Policies::default();
    let view = associations.view.clone();
    let key = |number: u32| Key::new(&[&number.to_be_bytes()[..], &[1; 16]].concat());
    let mut tunnel = |number: u32, step: usize| {
        let address: IpAddr = (0x0A40_0000 + number).to_be_bytes().into();
        for (to, key_number) in [(FAR, 2 * number), (NEAR, 2 * number + 1)] {
            let mut sa = sa(to, 0x1000 + number);
            sa.reqid = number + 1;
            sa.aead = Some(NamedAead { key: key(key_number), ..sa.aead.unwrap() });
            sa.limits.soft_packets = 0;
            match step {
                0 => associations.add(sa, false, is_near).unwrap(),
                1 => _ = associations.enforce_limits(&sa.id).unwrap(),
                _ => _ = associations.remove(&sa.id).unwrap(),
            }
        }
        for direction in [Direction::Out, Direction::In, Direction::Forward] {
            let mut policy = policy(direction, 100 + step as u32, 0);
            let selector = &mut policy.selector;
            let far = if direction == Direction::Out { &mut selector.destination } else { &mut selector.source };
            *far = Prefix { address, length: 32 };
            policy.templates[0].reqid = number + 1;
            let old = policies.find(&policy.selector, direction).cloned();
            let new = match step {
                0 | 1 => Some(policies.add(policy, step > 0).unwrap()),
                _ => {
                    let Policy { selector, direction, .. } = policy;
                    let (mark, unknown) = (None, Vec::new());
                    let named = PolicyRef { selector, index: 0, direction, kind: 0, mark, interface_id: 0, unknown };
                    policies.remove(&named).unwrap();
                    None
                }
            };
            view.change(|view| view.replace_policy(old.as_deref(), new.as_ref()));
        }
        let flow = Flow { destination: address, ..flow(true, 6) };
        let rule = view.read().outgoing_rule(&flow);
        assert_eq!(rule.is_some(), step < 2);
    };
    let steps = || (0..3).for_each(|step| (0..count).for_each(|number| tunnel(number, step)));
    measure(steps).1.total_bytes
}

#[test]
fn the_work_of_tunnels_is_linear() {
    let gantry = gantry();
    // The first requests open devices.
    work(&gantry, 8);
    // Eight times as many tunnels take about eight times as many bytes.
    let (few, many) = (work(&gantry, 256), work(&gantry, 2048));
    assert!(few > 0 && many < 10 * few, "{few} bytes for 256 tunnels, {many} for 2048");
}
