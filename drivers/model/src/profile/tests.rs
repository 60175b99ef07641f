//! Tests of the built-in profiles, and of profiles from a configuration.

use super::*;

#[test]
fn built_in_profiles_are_valid_and_have_unique_names() {
    for (index, profile) in PROFILES.iter().enumerate() {
        assert_eq!(profile.validate(), Ok(()));
        assert!(PROFILES[..index].iter().all(|other| other.name != profile.name), "{}", profile.name);
        assert!(!profile.description.is_empty());
    }
}

#[test]
fn time_is_setup_and_bytes_by_bandwidth_and_does_not_overflow() {
    let rate = rate(Algorithm::Sha256, 500, 80);
    assert_eq!(Profile::unit_ns(&rate, 1000), 500 + 100_000);
    assert_eq!(Profile::unit_ns(&rate, 0), 500);
    assert_eq!(Profile::unit_ns(&Rate { megabits: 1, ..rate }, usize::MAX), u64::MAX);
}

#[test]
fn errors_name_the_invalid_field() {
    let good = Profile::named("kirkwood").unwrap();
    let rates = |rates: &[Rate]| Profile { rates: rates.to_vec().into(), ..good.clone() };
    let aes = good.rates[0];
    for (profile, says) in [
        (Profile { ring: 0, ..good.clone() }, "the ring must have 1 to 65536 places"),
        (Profile { ring: usize::MAX, ..good.clone() }, "the ring must have 1 to 65536 places"),
        (Profile { units: 0, ..good.clone() }, "1 to 1024 units"),
        (Profile { cap_megabits: Some(0), ..good.clone() }, "the cap must be more than 0"),
        (Profile { submit_ns: u64::MAX, ..good.clone() }, "completion takes more than 10 s"),
        (Profile { complete_ns: u64::MAX, ..good.clone() }, "completion takes more than 10 s"),
        (Profile { jitter_percent: u32::MAX, ..good.clone() }, "jitter"),
        (Profile { name: "".into(), ..good.clone() }, "the name must have"),
        (Profile { name: "a b".into(), ..good.clone() }, "the name must have"),
        (rates(&[]), "no algorithm is given"),
        (rates(&[aes, aes]), "aes-128-cbc is given twice"),
        (rates(&[Rate { megabits: 0, ..aes }]), "the bandwidth of aes-128-cbc is 0"),
        (rates(&[Rate { setup_ns: u64::MAX, ..aes }]), "the setup of aes-128-cbc takes more than 10 s"),
    ] {
        let problem = profile.validate().unwrap_err().to_string();
        assert!(problem.contains(says), "{problem}");
    }
    assert!((Power { idle_watts: 2.0, loaded_watts: 6.0 }.watts(0.25) - 3.0).abs() < 1e-9);
    for (idle_watts, loaded_watts) in [(-1.0, 2.0), (3.0, 2.0), (f64::NAN, 2.0), (1.0, f64::INFINITY)] {
        let power = Some(Power { idle_watts, loaded_watts });
        assert!(Profile { power, ..good.clone() }.validate().is_err());
    }
}

#[test]
fn a_configured_profile_changes_another_one() {
    let text = "ring=8, like=hifn7951, order=any,completion=polled,sha256=2000+400,md5=1+2,cap=90,power=1.5-2";
    let parsed = Profile::parse("mine", text).unwrap();
    let hifn = Profile::named("hifn7951").unwrap();
    let expected = Profile {
        name: "mine".into(),
        ring: 8,
        in_order: false,
        completion: Completion::Polled,
        cap_megabits: Some(90),
        power: Some(Power { idle_watts: 1.5, loaded_watts: 2.0 }),
        rates: vec![hifn.rates[0], hifn.rates[2], rate(Algorithm::Sha256, 2000, 400), rate(Algorithm::Md5, 1, 2)]
            .into(),
        ..hifn.clone()
    };
    assert_eq!(parsed, expected);
}

#[test]
fn errors_name_the_invalid_field_of_a_configured_profile() {
    for (text, says) in [
        ("like=hifn", "there is no model 'hifn' for 'like'"),
        ("ring=8", "no algorithm is given"),
        ("", "'' is not a valid field; the fields are like=MODEL"),
        ("like=kirkwood,ring=-1", "'ring=-1' is not a valid field"),
        ("like=kirkwood,order=maybe", "'order=maybe' is not a valid field"),
        ("like=kirkwood,sha257=1+1", "'sha257=1+1' is not a valid field"),
        ("like=kirkwood,sha256=1", "'sha256=1' is not a valid field"),
        ("like=kirkwood,power=3", "'power=3' is not a valid field"),
        ("like=kirkwood,sha256=1+0", "the bandwidth of sha256 is 0"),
        ("like=kirkwood,ring=99999999999999999999999", "is not a valid field"),
    ] {
        let problem = Profile::parse("mine", text).unwrap_err().to_string();
        assert!(problem.starts_with("the model 'mine': ") && problem.contains(says), "{problem}");
    }
}
