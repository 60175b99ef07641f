//! OpenSSL's jobs, whose stacks have no room for devices. The default provider serves messages that begin in a job. A device that has begun
//! a message outside a job continues the message in a job.

mod lab;

use std::fs;

use lab::{Lab, has_models, is_installed, text};

/// Runs `jobs.c` with a section and its argument `place`. Returns the output, and the requests of the default provider and of devices, over
/// all algorithms.
fn run_jobs(lab: &Lab, section: &str, place: &str) -> (String, [u64; 2]) {
    let program = lab.compile("tests/jobs.c");
    lab.collect_statistics();
    let configuration = lab.configuration(&format!("CIPHERS = ALL\n{section}"));
    let words = [configuration.as_os_str(), place.as_ref()];
    let output = lab.command(program.to_str().unwrap(), &configuration).args(words).output().unwrap();
    let sums = |sums: [u64; 2], [default, _, devices, ..]: &[u64; 8]| [sums[0] + default, sums[1] + devices];
    (text(&output), lab::counters(lab).values().fold([0; 2], sums))
}

#[test]
fn the_default_provider_serves_messages_that_begin_in_a_job() {
    let lab = Lab::new("jobs");
    for section in ["", "POLICY = pin:lanes", "POLICY = pin:software"] {
        let (answer, [default, devices]) = run_jobs(&lab, section, "inside");
        assert_eq!(answer, "the same\n", "{section}");
        assert!(default > 0 && devices == 0, "{section}: {default} and {devices}");
    }
}

#[test]
fn a_device_continues_its_messages_in_a_job() {
    let lab = Lab::new("jobs-across");
    for section in ["POLICY = pin:lanes", "POLICY = pin:software"] {
        let (answer, [default, devices]) = run_jobs(&lab, section, "across");
        assert_eq!(answer, "the same\n", "{section}");
        assert!(default > 0 && devices > 0, "{section}: {default} and {devices}");
    }
    if !has_models() {
        return;
    }
    // Requests that an engine fails are repeated elsewhere, in a job too.
    fs::create_dir_all(lab.path("gantry")).unwrap();
    let model = "faulty = \"like=faulty,aes-128-cbc=2000+4000\"";
    lab.write("gantry/gantry.toml", format!("faults = \"errors=1/3\"\n[models]\n{model}\n"));
    let (answer, _) = run_jobs(&lab, "DEVICES = model:faulty=on\nPOLICY = pin:model:faulty", "across");
    assert_eq!(answer, "the same\n");
}

/// The loop of `openssl speed` waits with `select`, and takes one descriptor per job.
#[test]
fn a_device_serves_the_jobs_of_openssl_speed() {
    if !is_installed("openssl") {
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
