//! The data path uses no sequence number twice under one key, even if the IKE daemon sets the number back.

use crate::host::{Pair, Plan};
use crate::keys::{Keys, Sa, V4, add_policies};
use crate::traffic::Flow;
use crate::wire::{self, Listener};
use gantry_lab::wait_until;

/// Returns the value after a word in a text, up to the next comma, space or line break.
fn value_after<'t>(text: &'t str, word: &str) -> &'t str {
    text.split(word).nth(1).unwrap_or_else(|| panic!("{word} is not in {text}")).split([',', ' ', '\n']).next().unwrap()
}

/// Acts like strongSwan's charon when a peer has moved: reads the SA's last sequence number, deletes the SA, and adds it with this number.
/// Packets sent between the reading and the deletion have already used the next numbers.
#[test]
#[ignore = "needs root and network namespaces"]
fn an_sa_added_again_under_traffic_repeats_no_number() {
    let pair = Pair::with_data_paths(&Plan::default());
    let a_to_b = Sa::new(&pair.a, &pair.b, 0x1001, &Keys::gcm());
    a_to_b.install();
    // The policies need the addresses of this SA, which is not installed.
    let b_to_a = Sa::new(&pair.b, &pair.a, 0x1002, &Keys::gcm());
    add_policies(&a_to_b, &b_to_a);
    add_policies(&b_to_a, &a_to_b);
    let listener = Listener::start(&pair.a.namespace, "va");
    let flow = Flow::start(&pair.a, &pair.b, V4);
    let get_command = a_to_b.delete_command().replace("state delete", "state get");
    for _ in 0..20 {
        let sent = pair.a.counter("sent_packets");
        wait_until("packets pass", || pair.a.counter("sent_packets") > sent + 5);
        let shown_sa = pair.a.xfrm(&get_command);
        let options = format!("replay-window 32 replay-oseq {}", value_after(&shown_sa, "oseq "));
        pair.a.xfrm(&a_to_b.delete_command());
        pair.a.xfrm(&Sa { options: &options, ..a_to_b.clone() }.add_command());
    }
    let sent = pair.a.counter("sent_packets");
    wait_until("packets pass", || pair.a.counter("sent_packets") > sent + 5);
    flow.finish();
    let mut numbers: Vec<u32> = wire::esp(&listener.finish()).iter().map(|esp| esp.sequence_number).collect();
    let packets = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(packets, numbers.len(), "numbers were used twice");
    assert!(packets > 100);
}
