use std::borrow::Cow;

use gantry_core::Algorithm;

/// An engine as a row of data.
///
/// One request takes `submit_ns` of the CPU, then `setup_ns` of the first unit that is free and the time that its bytes need
/// at the algorithm's bandwidth, then `complete_ns` of the CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The device is called `model:` and this.
    pub name: Cow<'static, str>,
    /// For people.
    pub description: Cow<'static, str>,
    /// What it can, and how fast.
    pub rates: Cow<'static, [Rate]>,
    /// Requests that are in the device at once, of all queues together.
    pub ring: usize,
    /// Requests that are worked on at once, each at its full bandwidth.
    pub units: usize,
    /// What the units cannot exceed together, in megabits per second.
    pub cap_megabits: Option<u64>,
    /// Whether requests come back in the order in which they were submitted.
    pub in_order: bool,
    /// How the device says that it is done.
    pub completion: Completion,
    /// Not a card, but the software of a board: it works in the calling thread, and everything above but rates has no meaning.
    pub direct: bool,
    /// What submitting one request costs the CPU, in nanoseconds.
    pub submit_ns: u64,
    /// What the completion of one request costs the CPU, in nanoseconds.
    pub complete_ns: u64,
    /// How much longer than modelled a request may take, at random, in percent.
    pub jitter_percent: u32,
    /// Where randomness starts from.
    pub seed: u64,
    /// What it draws, where that is known; of software, its board.
    pub power: Option<Power>,
}

/// What one algorithm costs a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Nanoseconds that each request takes, however small.
    pub setup_ns: u64,
    /// Megabits per second that come on top.
    pub megabits: u64,
}

/// How a device says that it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// It interrupts, and can wake who waits for it.
    Interrupt,
    /// Somebody has to look.
    Polled,
}

/// Watts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Power {
    /// With nothing to do.
    pub idle_watts: f64,
    /// With all units at work.
    pub loaded_watts: f64,
}

impl Power {
    /// With work during this share of the time, 0 to 1.
    pub fn watts(&self, busy: f64) -> f64 {
        self.idle_watts + (self.loaded_watts - self.idle_watts) * busy
    }
}

/// Why a profile describes no engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absurd(String);

impl std::fmt::Display for Absurd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Absurd {}

const fn rate(algorithm: Algorithm, setup_ns: u64, megabits: u64) -> Rate {
    Rate { algorithm, setup_ns, megabits }
}

/// A card on its own: one unit, in order, with interrupts.
const CARD: Profile = Profile {
    name: Cow::Borrowed(""),
    description: Cow::Borrowed(""),
    rates: Cow::Borrowed(&[]),
    ring: 1,
    units: 1,
    cap_megabits: None,
    in_order: true,
    completion: Completion::Interrupt,
    direct: false,
    submit_ns: 0,
    complete_ns: 0,
    jitter_percent: 0,
    seed: 1,
    power: None,
};

/// The cards of "Cryptographic Device Support for FreeBSD" (Leffler, BSDCon 2003). Their CPU costs are those of its Table 1 on
/// a Pentium 4 of 1.8 GHz (dispatch 115 ns; done 2295 ns and callback 341 ns), measured there with the BCM5822. Setup
/// and bandwidth are fitted to its Tables 5 and 6; the CPU costs and the 13.8 µs that the rest of a `cryptotest` request
/// takes there (172.4 µs in Table 5 less the 158.6 µs in Table 1, 3DES with 8192 bytes) are not part of the setup.
const OCF: Profile = Profile { submit_ns: 115, complete_ns: 2636, ..CARD };

/// Every profile that is built in.
pub static PROFILES: &[Profile] = &[
    // The ring is that of the FreeBSD driver (HIFN_D_CMD_RSIZE, 24 command descriptors).
    Profile {
        name: Cow::Borrowed("hifn7951"),
        description: Cow::Borrowed("model of a Hifn 7951 card of 2003"),
        rates: Cow::Borrowed(&[
            rate(Algorithm::DesEde3Cbc, 16_150, 84),
            rate(Algorithm::Md5, 19_350, 100),
            rate(Algorithm::Sha1, 23_050, 84),
        ]),
        ring: 24,
        ..OCF
    },
    Profile {
        name: Cow::Borrowed("hifn7811"),
        description: Cow::Borrowed("model of a Hifn 7811 card of 2003"),
        rates: Cow::Borrowed(&[
            rate(Algorithm::DesEde3Cbc, 15_250, 161),
            rate(Algorithm::Md5, 15_850, 207),
            rate(Algorithm::Sha1, 16_750, 187),
        ]),
        ring: 24,
        ..OCF
    },
    // The queue is that of OpenBSD's driver (UBS_MAX_NQUEUE). SHA-1 leans towards one cell that is out of line with its
    // neighbours (Table 6, 16 bytes: 2.2 Mb/s between 1.5 at 8 bytes and 5.3 at 32), so that this too is within 20 %;
    // without that cell its setup would be 5.5 µs, as for MD5.
    Profile {
        name: Cow::Borrowed("bcm5822"),
        description: Cow::Borrowed("model of a Broadcom BCM5822 card of 2003"),
        rates: Cow::Borrowed(&[
            rate(Algorithm::DesEde3Cbc, 5_250, 453),
            rate(Algorithm::Md5, 5_550, 660),
            rate(Algorithm::Sha1, 10_750, 700),
        ]),
        ring: 60,
        ..OCF
    },
    // `openssl speed` through /dev/crypto: 28426, 27653, 19935, 13646 and 2742 operations per second with 16, 64, 256, 1024 and
    // 8192 bytes; the line is within 10 %. At most 0.08 s of CPU in the 3 s with 28426 a second make 0.94 µs a request.
    Profile {
        name: Cow::Borrowed("kirkwood"),
        description: Cow::Borrowed("model of the CESA engine of a Marvell Kirkwood, 1.2 GHz"),
        rates: Cow::Borrowed(&[rate(Algorithm::Aes128Cbc, 34_260, 199)]),
        ring: 64,
        submit_ns: 470,
        complete_ns: 470,
        ..CARD
    },
    // Software of the same board: 623355, 172025, 44158, 11114 and 1390 a second. The line is within 1 %. Watts of the whole
    // board.
    Profile {
        name: Cow::Borrowed("kirkwood-cpu"),
        description: Cow::Borrowed("model of the software of a Marvell Kirkwood, 1.2 GHz"),
        rates: Cow::Borrowed(&[rate(Algorithm::Aes128Cbc, 200, 91)]),
        direct: true,
        power: Some(Power { idle_watts: 2.3, loaded_watts: 7.0 }),
        ..CARD
    },
    // 1551, 6126, 21528, 55995, 95027 and 99937 kB/s with 16, 64, 256, 1024, 8192 and 16384 bytes; the line is within 8 %. 5.1 s
    // of system time for the 1.05 million requests of 6 runs of 3 s make 4.9 µs a request, of which nobody says how much
    // is before and how much after the engine.
    Profile {
        name: Cow::Borrowed("cortex-a9"),
        description: Cow::Borrowed("model of the CESA engine of a Marvell board with Cortex-A9"),
        rates: Cow::Borrowed(&[rate(Algorithm::Aes256Cbc, 4_600, 843)]),
        ring: 64,
        submit_ns: 2_450,
        complete_ns: 2_450,
        ..CARD
    },
    // Software of the same board: 39603, 47420, 50270, 51003, 51249 and 51233 kB/s. The line is within 1 %.
    Profile {
        name: Cow::Borrowed("cortex-a9-cpu"),
        description: Cow::Borrowed("model of the software of a Cortex-A9"),
        rates: Cow::Borrowed(&[rate(Algorithm::Aes256Cbc, 92, 410)]),
        direct: true,
        ..CARD
    },
    // A file of 680 MB through AF_ALG: SHA-256 in 4.45 s, SHA-1 in 4.7 s. Nobody published what a small request costs: setup and
    // CPU costs are guesses between those of the two boards above.
    Profile {
        name: Cow::Borrowed("amd-ccp"),
        description: Cow::Borrowed("model of the CCP of an AMD GX-212ZC; small requests are a guess"),
        rates: Cow::Borrowed(&[rate(Algorithm::Sha256, 20_000, 1222), rate(Algorithm::Sha1, 20_000, 1157)]),
        ring: 64,
        submit_ns: 1_500,
        complete_ns: 1_500,
        ..CARD
    },
    // OpenSSL on the same machine and file: 9.42 s and 4.6 s. The setup is a guess.
    Profile {
        name: Cow::Borrowed("amd-ccp-cpu"),
        description: Cow::Borrowed("model of the software of an AMD GX-212ZC; small requests are a guess"),
        rates: Cow::Borrowed(&[rate(Algorithm::Sha256, 300, 577), rate(Algorithm::Sha1, 200, 1183)]),
        direct: true,
        ..CARD
    },
    // The report on the P4080 has shapes and no numbers: offload pays off above some size, throughput rises with threads until
    // the engine is saturated, large frames meet its bandwidth. The numbers here are chosen to have these shapes: four
    // units, of which three saturate it.
    Profile {
        name: Cow::Borrowed("freescale-sec"),
        description: Cow::Borrowed("model in the shape of the SEC of a Freescale P4080; its numbers are chosen"),
        rates: Cow::Borrowed(&[
            rate(Algorithm::Aes128Cbc, 20_000, 1200),
            rate(Algorithm::Sha256, 20_000, 1200),
            rate(Algorithm::EspAes128Gcm, 20_000, 1200),
            rate(Algorithm::EspAes128CbcHmacSha1, 20_000, 1200),
            rate(Algorithm::EspAes128CbcHmacSha256, 20_000, 1200),
        ]),
        ring: 64,
        units: 4,
        cap_megabits: Some(3_600),
        in_order: false,
        submit_ns: 2_000,
        complete_ns: 2_000,
        ..CARD
    },
    // Chosen too: some 25 cycles a byte at 1.5 GHz.
    Profile {
        name: Cow::Borrowed("e500mc-cpu"),
        description: Cow::Borrowed("model in the shape of the software of an e500mc, 1.5 GHz; its numbers are chosen"),
        rates: Cow::Borrowed(&[rate(Algorithm::Aes128Cbc, 300, 480), rate(Algorithm::Sha256, 300, 400)]),
        direct: true,
        ..CARD
    },
    // "Data Compression Accelerator on IBM POWER9 and z15 Processors" (ISCA 2020): 280 GB/s of the 20 accelerators of the largest z15, each
    // of which is twice as fast as that of a POWER9. Nobody published what a small request costs: setup and CPU costs are guesses.
    Profile {
        name: Cow::Borrowed("power9-nx"),
        description: Cow::Borrowed("model of the gzip engine of an IBM POWER9; small requests are a guess"),
        rates: Cow::Borrowed(&[
            rate(Algorithm::Deflate, 5_000, 56_000),
            rate(Algorithm::Zlib, 5_000, 56_000),
            rate(Algorithm::Gzip, 5_000, 56_000),
        ]),
        ring: 64,
        completion: Completion::Polled,
        submit_ns: 500,
        complete_ns: 500,
        ..CARD
    },
    // No real engine: for tests of what happens when one goes wrong.
    Profile {
        name: Cow::Borrowed("faulty"),
        description: Cow::Borrowed("a card that goes wrong on demand"),
        rates: Cow::Borrowed(&[
            rate(Algorithm::Aes128Cbc, 2_000, 4_000),
            rate(Algorithm::Aes128Gcm, 2_000, 4_000),
            rate(Algorithm::Sha256, 2_000, 4_000),
            rate(Algorithm::HmacSha256, 2_000, 4_000),
            rate(Algorithm::Deflate, 2_000, 4_000),
            rate(Algorithm::EspAes128Gcm, 2_000, 4_000),
        ]),
        ring: 32,
        units: 2,
        in_order: false,
        submit_ns: 100,
        complete_ns: 100,
        jitter_percent: 50,
        ..CARD
    },
];

/// Ten seconds: no engine takes longer to begin.
const LONGEST_NS: u64 = 10_000_000_000;

impl Profile {
    /// The profile of this name.
    pub fn named(name: &str) -> Option<&'static Profile> {
        PROFILES.iter().find(|profile| profile.name == name)
    }

    /// Nanoseconds that a unit works on a request.
    pub(crate) fn unit_ns(rate: &Rate, bytes: usize) -> u64 {
        rate.setup_ns.saturating_add(transfer_ns(bytes, rate.megabits))
    }

    /// Whether there could be such an engine.
    pub(crate) fn check(&self) -> Result<(), Absurd> {
        let wrong = |problem: &str| Err(self.absurd(problem));
        let right = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        if self.name.is_empty() || self.name.len() > 64 || !self.name.bytes().all(right) {
            return wrong("a name has lower-case letters, digits, '-' and '_', 64 at most");
        }
        if self.rates.is_empty() {
            return wrong("it has no algorithm");
        }
        for (index, rate) in self.rates.iter().enumerate() {
            if self.rates[..index].iter().any(|other| other.algorithm == rate.algorithm) {
                return wrong(&format!("{} is there twice", rate.algorithm));
            }
            if rate.megabits == 0 {
                return wrong(&format!("{} has no bandwidth", rate.algorithm));
            }
            if rate.setup_ns > LONGEST_NS {
                return wrong(&format!("{} takes more than 10 s to begin", rate.algorithm));
            }
        }
        if !(1..=65_536).contains(&self.ring) {
            return wrong("a ring has 1 to 65536 places");
        }
        if !(1..=1_024).contains(&self.units) {
            return wrong("an engine has 1 to 1024 units");
        }
        if self.cap_megabits == Some(0) {
            return wrong("the cap leaves no bandwidth");
        }
        if self.submit_ns > LONGEST_NS || self.complete_ns > LONGEST_NS {
            return wrong("a request costs the CPU more than 10 s");
        }
        if self.jitter_percent > 1_000 {
            return wrong("jitter is 1000 % at most");
        }
        if let Some(Power { idle_watts, loaded_watts }) = self.power
            && !(0.0 <= idle_watts && idle_watts <= loaded_watts && loaded_watts.is_finite())
        {
            return wrong("power is 0 or more, and under load not less than in idle");
        }
        Ok(())
    }

    pub(crate) fn absurd(&self, problem: impl std::fmt::Display) -> Absurd {
        Absurd(format!("the model '{}': {problem}", self.name))
    }

    /// A profile as it stands in a configuration: `like=hifn7951,ring=8,sha256=2000+400`, where an algorithm has its setup in
    /// nanoseconds and its bandwidth in megabits per second.
    ///
    /// # Errors
    /// A field that does not exist, a value that it cannot have, or a profile that no engine can have.
    pub fn parse(name: &str, text: &str) -> Result<Self, Absurd> {
        let mut profile = Profile { description: "model from the configuration".into(), ..CARD };
        let (own, like): (Vec<_>, Vec<_>) =
            text.split(',').map(str::trim).partition(|field| !field.starts_with("like="));
        for field in like {
            let model = &field["like=".len()..];
            profile = Profile::named(model)
                .ok_or_else(|| Absurd(format!("the model '{name}': there is no model '{model}' to be like")))?
                .clone();
        }
        profile.name = name.to_owned().into();
        for field in own {
            let set = field.split_once('=').map(|(key, value)| profile.set(key, value));
            if set != Some(true) {
                return Err(profile.absurd(format!("'{field}' is no field of a profile: {FIELDS}")));
            }
        }
        profile.check()?;
        Ok(profile)
    }

    fn set(&mut self, key: &str, value: &str) -> bool {
        fn put<T: std::str::FromStr>(field: &mut T, value: &str) -> bool {
            value.parse().map(|value| *field = value).is_ok()
        }
        match (key, value) {
            ("ring", _) => put(&mut self.ring, value),
            ("units", _) => put(&mut self.units, value),
            ("cap", _) => put(self.cap_megabits.insert(0), value),
            ("submit", _) => put(&mut self.submit_ns, value),
            ("complete", _) => put(&mut self.complete_ns, value),
            ("jitter", _) => put(&mut self.jitter_percent, value),
            ("seed", _) => put(&mut self.seed, value),
            ("order", "kept" | "any") => put(&mut self.in_order, if value == "kept" { "true" } else { "false" }),
            ("completion", "interrupt" | "polled") => {
                self.completion = if value == "polled" { Completion::Polled } else { Completion::Interrupt };
                true
            }
            ("power", _) => {
                let watts = value.split_once('-').and_then(|(idle, loaded)| {
                    Some(Power { idle_watts: idle.parse().ok()?, loaded_watts: loaded.parse().ok()? })
                });
                self.power = watts;
                watts.is_some()
            }
            _ => {
                let rate = key.parse().ok().zip(value.split_once('+')).and_then(|(algorithm, (setup, megabits))| {
                    Some(rate(algorithm, setup.parse().ok()?, megabits.parse().ok()?))
                });
                let Some(rate) = rate else { return false };
                let rates = self.rates.to_mut();
                rates.retain(|other| other.algorithm != rate.algorithm);
                rates.push(rate);
                true
            }
        }
    }
}

const FIELDS: &str = "like=MODEL, ring=N, units=N, cap=MBIT, order=kept|any, completion=interrupt|polled, submit=NS, \
                      complete=NS, jitter=PERCENT, seed=N, power=IDLE-LOADED or ALGORITHM=SETUP_NS+MBIT";

/// Nanoseconds that `bytes` take at `megabits` per second.
pub(crate) fn transfer_ns(bytes: usize, megabits: u64) -> u64 {
    u64::try_from(bytes as u128 * 8_000 / u128::from(megabits)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profiles_that_are_built_in_could_be_engines_and_have_names_of_their_own() {
        for (index, profile) in PROFILES.iter().enumerate() {
            assert_eq!(profile.check(), Ok(()));
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
    fn absurd_profiles_say_what_is_absurd() {
        let good = Profile::named("kirkwood").unwrap();
        let rates = |rates: &[Rate]| Profile { rates: rates.to_vec().into(), ..good.clone() };
        let aes = good.rates[0];
        for (profile, says) in [
            (Profile { ring: 0, ..good.clone() }, "a ring has 1 to 65536 places"),
            (Profile { ring: usize::MAX, ..good.clone() }, "a ring has 1 to 65536 places"),
            (Profile { units: 0, ..good.clone() }, "1 to 1024 units"),
            (Profile { cap_megabits: Some(0), ..good.clone() }, "the cap leaves no bandwidth"),
            (Profile { submit_ns: u64::MAX, ..good.clone() }, "costs the CPU more than 10 s"),
            (Profile { complete_ns: u64::MAX, ..good.clone() }, "costs the CPU more than 10 s"),
            (Profile { jitter_percent: u32::MAX, ..good.clone() }, "jitter"),
            (Profile { name: "".into(), ..good.clone() }, "a name has"),
            (Profile { name: "a b".into(), ..good.clone() }, "a name has"),
            (rates(&[]), "it has no algorithm"),
            (rates(&[aes, aes]), "aes-128-cbc is there twice"),
            (rates(&[Rate { megabits: 0, ..aes }]), "aes-128-cbc has no bandwidth"),
            (rates(&[Rate { setup_ns: u64::MAX, ..aes }]), "aes-128-cbc takes more than 10 s to begin"),
        ] {
            let problem = profile.check().unwrap_err().to_string();
            assert!(problem.contains(says), "{problem}");
        }
        assert!((Power { idle_watts: 2.0, loaded_watts: 6.0 }.watts(0.25) - 3.0).abs() < 1e-9);
        for (idle_watts, loaded_watts) in [(-1.0, 2.0), (3.0, 2.0), (f64::NAN, 2.0), (1.0, f64::INFINITY)] {
            let power = Some(Power { idle_watts, loaded_watts });
            assert!(Profile { power, ..good.clone() }.check().is_err());
        }
    }

    #[test]
    fn a_profile_of_a_configuration_is_like_another_one_with_changes() {
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
    fn a_profile_of_a_configuration_says_what_is_wrong_with_it() {
        for (text, says) in [
            ("like=hifn", "there is no model 'hifn' to be like"),
            ("ring=8", "it has no algorithm"),
            ("", "'' is no field of a profile: like=MODEL"),
            ("like=kirkwood,ring=-1", "'ring=-1' is no field"),
            ("like=kirkwood,order=maybe", "'order=maybe' is no field"),
            ("like=kirkwood,sha257=1+1", "'sha257=1+1' is no field"),
            ("like=kirkwood,sha256=1", "'sha256=1' is no field"),
            ("like=kirkwood,power=3", "'power=3' is no field"),
            ("like=kirkwood,sha256=1+0", "sha256 has no bandwidth"),
            ("like=kirkwood,ring=99999999999999999999999", "is no field"),
        ] {
            let problem = Profile::parse("mine", text).unwrap_err().to_string();
            assert!(problem.starts_with("the model 'mine': ") && problem.contains(says), "{problem}");
        }
    }
}
