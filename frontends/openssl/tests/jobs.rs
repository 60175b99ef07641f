//! Jobs of OpenSSL, whose stacks have no room for devices: what begins in one is the host's, and what a device has begun goes on.

mod lab;

use std::fs;

use lab::{Lab, has_models, installed, text};

/// `jobs.c` with a section: what it says, and requests that were the host's and the devices', of all algorithms.
fn said(lab: &Lab, section: &str, how: &str) -> (String, [u64; 2]) {
    let program = lab.compile("tests/jobs.c");
    lab.watch();
    let configuration = lab.configuration(&format!("CIPHERS = ALL\n{section}"));
    let words = [configuration.as_os_str(), how.as_ref()];
    let output = lab.command(program.to_str().unwrap(), &configuration).args(words).output().unwrap();
    let sums = |sums: [u64; 2], [host, _, devices, ..]: &[u64; 8]| [sums[0] + host, sums[1] + devices];
    (text(&output), lab::counted(lab).values().fold([0; 2], sums))
}

#[test]
fn what_begins_in_a_job_is_the_hosts() {
    let lab = Lab::new("jobs");
    for section in ["", "POLICY = pin:lanes", "POLICY = pin:software"] {
        let (answer, [host, devices]) = said(&lab, section, "inside");
        assert_eq!(answer, "the same\n", "{section}");
        assert!(host > 0 && devices == 0, "{section}: {host} and {devices}");
    }
}

#[test]
fn what_a_device_has_begun_goes_on_in_a_job() {
    let lab = Lab::new("jobs-across");
    for section in ["POLICY = pin:lanes", "POLICY = pin:software"] {
        let (answer, [host, devices]) = said(&lab, section, "across");
        assert_eq!(answer, "the same\n", "{section}");
        assert!(host > 0 && devices > 0, "{section}: {host} and {devices}");
    }
    if !has_models() {
        return;
    }
    // What an engine fails to do is done elsewhere, in a job, too.
    fs::create_dir_all(lab.path("gantry")).unwrap();
    let model = "faulty = \"like=faulty,aes-128-cbc=2000+4000\"";
    lab.write("gantry/gantry.toml", format!("faults = \"errors=1/3\"\n[models]\n{model}\n"));
    let (answer, _) = said(&lab, "DEVICES = model:faulty=on\nPOLICY = pin:model:faulty", "across");
    assert_eq!(answer, "the same\n");
}

/// Its loop waits with `select` and takes one descriptor for each job.
#[test]
fn openssl_speed_has_its_jobs_served() {
    if !installed("openssl") {
        return;
    }
    let lab = Lab::new("speed");
    let configuration = lab.configuration("CIPHERS = ALL\nPOLICY = pin:lanes");
    for cipher in ["aes-128-cbc", "aes-256-xts", "aes-128-gcm"] {
        let output =
            lab.sh(&format!("openssl speed -async_jobs 32 -seconds 1 -bytes 16384 -evp {cipher} 2>&1"), &configuration);
        assert!(output.status.success(), "{}", text(&output));
    }
}
