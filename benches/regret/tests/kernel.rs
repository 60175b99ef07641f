//! Checks that the policy chooses the best device, in guests with a real kernel. The clock of the guests counts instructions, so the load
//! of this machine does not change the results. QEMU's work for a device executes no instructions of the guest, so a request costs only
//! the work of the guest's kernel and driver.

use std::process::Command;

use serde_json::Value;

gantry_lab::in_guest! {
    ["--count", "--cpu", "max,aes=off", "--device", "virtio-crypto", "--timeout", "900"]
    /// On a CPU without AES instructions, virtio-crypto is slower for small requests and faster for large ones, and the policy finds the
    /// boundary.
    fn an_engine_is_chosen_where_it_wins() {
        let rows = assert_low_regret();
        assert_eq!((best_device(&rows[0]), best_device(&rows[rows.len() - 1])), ("software", "afalg:virtio_crypto"));
    }

    ["--count", "--device", "virtio-crypto", "--timeout", "900"]
    /// On a CPU with AES instructions, virtio-crypto is slower at every size.
    fn an_engine_that_never_wins_costs_little() {
        assert!(assert_low_regret().iter().all(|row| !best_device(row).starts_with("afalg")));
    }
}

/// Measures the policy at seven sizes from 16 bytes to 64 KiB, and asserts that it is at most 3 % slower than the best device. Returns a
/// row for each size.
fn assert_low_regret() -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_gantry-bench-regret"))
        .args(["aes-128-cbc", "--batch", "1", "--threads", "1", "--seconds", "0.01", "--set", "devices=afalg=on"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    println!("{text}{}", String::from_utf8_lossy(&output.stderr));
    let Value::Array(rows) = serde_json::from_str::<Value>(&text).unwrap()["rows"].take() else { panic!("{text}") };
    assert_eq!(rows.len(), 7);
    assert!(rows.iter().all(|row| row["ratio"].as_f64().unwrap() >= 0.97), "{text}");
    rows
}

fn best_device(row: &Value) -> &str {
    row["best_device"].as_str().unwrap()
}
