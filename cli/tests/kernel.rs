//! The commands under a real kernel with an engine, in guests. Their clock counts instructions, and they spin where they would
//! sleep, so that what is measured there does not depend on how busy this machine is.

use std::process::Command;

use serde_json::Value;

gantry_lab::in_guest! {
    /// The engine is slower on small requests and faster on large ones, and routes know where that changes.
    ["--count", "--append", "idle=poll", "--cpu", "max,aes=off", "--device", "virtio-crypto", "--timeout", "900"]
    fn an_engine_is_chosen_where_it_wins() {
        let rows = regret();
        assert_eq!((best(&rows[0]), best(&rows[rows.len() - 1])), ("software", "afalg:virtio_crypto"));
    }

    /// A CPU with instructions for AES leaves nothing for an engine to win.
    ["--count", "--append", "idle=poll", "--device", "virtio-crypto", "--timeout", "900"]
    fn an_engine_that_never_wins_costs_nothing() {
        assert!(regret().iter().all(|row| !best(row).starts_with("afalg")));
    }
}

/// The points of `gantry speed --regret` from 16 bytes to 64 KiB. At none of them the policy is more than 3 % slower than the
/// best device.
fn regret() -> Vec<Value> {
    let arguments = "speed aes-128-cbc --regret --operation encrypt --bytes 16,64,256,1024,4096,16384,65536 --batch 1 \
                     --threads 1 --seconds 0.01 --json";
    let mut gantry = Command::new(env!("CARGO_BIN_EXE_gantry"));
    let output = gantry.args(arguments.split_whitespace()).env("GANTRY_DEVICES", "afalg=on").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    let Value::Array(rows) = serde_json::from_str::<Value>(&text).unwrap()["rows"].take() else { panic!("{text}") };
    assert_eq!(rows.len(), 7);
    assert!(rows.iter().all(|row| row["ratio"].as_f64().unwrap() >= 0.97), "{text}");
    rows
}

fn best(row: &Value) -> &str {
    row["best_device"].as_str().unwrap()
}
