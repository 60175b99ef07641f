//! Runs the commands of the book's tunnel, and compares the output with the page.

mod book;
mod gantry;

use std::path::Path;

use book::{Directive, Example, blocks, commands, compare};

/// The reason in the comment above the blocks that this test runs.
const MARK: &str = "cli/tests/esp_page.rs";

#[test]
#[ignore = "needs root and strongSwan: scripts/test-clients"]
fn the_tunnel_of_the_book_comes_up_and_lets_nothing_out() {
    if !nix::unistd::geteuid().is_root() {
        return gantry_lab::skip("root");
    }
    let needed = [
        ("/usr/lib/ipsec/charon", "charon"),
        ("/usr/sbin/swanctl", "swanctl"),
        ("/usr/bin/ping", "ping"),
        ("/dev/net/tun", "networks of one's own with tunnels"),
    ];
    if let Some((_, missing)) = needed.into_iter().find(|(path, _)| !Path::new(path).exists()) {
        return gantry_lab::skip(missing);
    }
    let is_ours = |directive: &Directive| matches!(directive, Directive::NotRun(reason) if reason == MARK);
    let blocks = blocks("esp.md");
    let examples: Vec<Example> = blocks.iter().filter(|block| is_ours(&block.directive)).flat_map(commands).collect();
    assert!(examples.len() > 40, "{} commands", examples.len());
    let vary = |example: Example| Example { numbers_vary: true, ..example };
    let found = compare("esp.md", &examples.into_iter().map(vary).collect::<Vec<_>>());
    let messages: Vec<&str> = found.iter().map(|difference| &*difference.message).collect();
    assert!(messages.is_empty(), "{}", messages.join("\n"));
}
