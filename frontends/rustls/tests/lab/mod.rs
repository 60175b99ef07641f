//! Runs programs in processes of their own, and counts the records that lanes served in them.

use std::process::Command;
use std::{env, fs};

use gantry_core::Algorithm;
use gantry_runtime::Config;
use gantry_runtime::stats::{PageReceiver, VARIABLE};

/// The variable that marks the process in which the program runs.
const CHILD_VARIABLE: &str = "GANTRY_RUSTLS_TEST";

/// Runs the test `test` again in a new process with a policy; there, this function calls `program`. Returns the number of requests that
/// lanes served in that process, or `None` on a CPU where lanes have no AES-GCM.
pub(crate) fn served_by_lanes(test: &str, policy: Option<&str>, program: fn() -> !) -> Option<u64> {
    if env::var_os(CHILD_VARIABLE).is_some() {
        program();
    }
    let folder = env::temp_dir().join(format!("gantry-rustls-{test}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let receiver = PageReceiver::begin(&folder).unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(CHILD_VARIABLE, "1").env(VARIABLE, receiver.path());
    command.env("XDG_CACHE_HOME", &folder).env("XDG_CONFIG_HOME", "/nonexistent");
    command.env_remove("GANTRY_CONFIG").env_remove("GANTRY_DEVICES").env_remove("GANTRY_POLICY");
    let output = command.envs(policy.map(|policy| ("GANTRY_POLICY", policy))).output().unwrap();
    let pages = receiver.end().unwrap();
    fs::remove_dir_all(folder).unwrap();
    assert!(output.status.success(), "{:?}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    assert_eq!(pages.problem_lines().collect::<Vec<_>>(), Vec::<String>::new());
    let report = pages.pages.first().expect("the framework is open").read().unwrap();
    let is_lanes = |device: &Option<String>| device.as_deref() == Some("lanes");
    let gantry = gantry_runtime::open(Config::default()).unwrap();
    gantry.device("lanes")?.capability(Algorithm::Aes128Gcm)?;
    Some(report.rows.iter().filter(|row| is_lanes(&row.device)).map(|row| row.requests).sum())
}

/// Ends the process without the exit handlers of the test harness, which make other calls.
pub(crate) fn exit_process() -> ! {
    // SAFETY: ends the process.
    unsafe { libc::_exit(0) }
}
