//! Options of charon that the data path refuses.

use gantry_lab::wait_until;

use crate::gateway::{GANTRY_12, Pair, Plan, charons};

/// The daemon gets no tunnel, because the marks or the interface of the tunnel would have no effect.
#[test]
#[ignore = "needs root and network namespaces"]
fn a_child_with_a_mark_or_an_interface_is_refused() {
    for kind in charons() {
        for (option, refusal) in [
            ("mark_in = 42", "marks are not supported"),
            ("mark_out = 42", "marks are not supported"),
            ("set_mark_in = 42", "marks are not supported"),
            ("set_mark_out = 42", "marks are not supported"),
            ("if_id_out = 42", "XFRM interfaces are not supported"),
        ] {
            let pair = Pair::new([kind, GANTRY_12], &Plan { first: ["", option], ..Plan::default() });
            // strongSwan 5.9 does not show the text of a refusal.
            let refusal = if kind.debian == 13 { refusal } else { "Operation not supported" };
            let (succeeds, text) = pair.a.try_swanctl("--initiate --timeout 60 --child net");
            assert!(!succeeds && text.contains(refusal), "{option}: {text}");
            wait_until("the daemon removes its SAs and policies", || {
                let status = pair.a.status();
                status["sas"].as_array().unwrap().is_empty() && status["policies"] == 0
            });
        }
    }
}
