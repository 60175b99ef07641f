//! Engines as rows of data, each with its source.

use std::borrow::Cow;

use gantry_core::Algorithm;

/// An engine as a row of data.
///
/// A request takes `submit_ns` of the CPU. Then it takes the first free unit for `setup_ns`, plus the time of its bytes at the
/// algorithm's bandwidth. Its completion takes `complete_ns` of the CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The name of the device without the prefix `model:`.
    pub name: Cow<'static, str>,
    /// Description, shown to users.
    pub description: Cow<'static, str>,
    /// The algorithms with their speeds.
    pub rates: Cow<'static, [Rate]>,
    /// Maximum number of requests in the device, of all queues together.
    pub ring: usize,
    /// Number of requests processed at once, each at full bandwidth.
    pub units: usize,
    /// Maximum bandwidth of all units together, in megabits per second.
    pub cap_megabits: Option<u64>,
    /// True if requests complete in the order of submission.
    pub in_order: bool,
    /// How the device reports completions.
    pub completion: Completion,
    /// True for the software of a board instead of a card: it works in the calling thread, and only its rates and `power`
    /// matter.
    pub is_software: bool,
    /// CPU time to submit a request, in nanoseconds.
    pub submit_ns: u64,
    /// CPU time to complete a request, in nanoseconds.
    pub complete_ns: u64,
    /// Maximum random delay of a request, in percent of its modelled time.
    pub jitter_percent: u32,
    /// Seed of the random numbers.
    pub seed: u64,
    /// The power of the engine, if known; for software, the power of the board.
    pub power: Option<Power>,
}

/// The cost of one algorithm on a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Fixed nanoseconds of each request.
    pub setup_ns: u64,
    /// Bandwidth for the request's bytes, in megabits per second.
    pub megabits: u64,
}

/// How a device reports completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// It interrupts, and can wake waiting threads.
    Interrupt,
    /// A thread has to poll it.
    Polled,
}

/// Power in watts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Power {
    /// Power when idle.
    pub idle_watts: f64,
    /// Power when all units work.
    pub loaded_watts: f64,
}

impl Power {
    /// Returns the average power for a load of `busy`, 0 to 1.
    pub fn watts(&self, busy: f64) -> f64 {
        self.idle_watts + (self.loaded_watts - self.idle_watts) * busy
    }
}

/// The reason why a profile is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidProfile(String);

impl std::fmt::Display for InvalidProfile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidProfile {}

const fn rate(algorithm: Algorithm, setup_ns: u64, megabits: u64) -> Rate {
    Rate { algorithm, setup_ns, megabits }
}

/// The defaults of a card: one unit, in order, with interrupts.
const CARD_DEFAULTS: Profile = Profile {
    name: Cow::Borrowed(""),
    description: Cow::Borrowed(""),
    rates: Cow::Borrowed(&[]),
    ring: 1,
    units: 1,
    cap_megabits: None,
    in_order: true,
    completion: Completion::Interrupt,
    is_software: false,
    submit_ns: 0,
    complete_ns: 0,
    jitter_percent: 0,
    seed: 1,
    power: None,
};

/// The cards of "Cryptographic Device Support for FreeBSD" (Leffler, BSDCon 2003). The CPU costs are from its Table 1 on a Pentium 4 of 1.8
/// GHz, measured with the BCM5822: dispatch 115 ns, done 2295 ns, callback 341 ns. Setup and bandwidth are fitted to its Tables 5 and 6.
/// The setup excludes the CPU costs, and the 13.8 µs of the rest of a `cryptotest` request. The 13.8 µs are the 172.4 µs of Table 5 less
/// the 158.6 µs of Table 1, for 3DES with 8192 bytes.
const OCF: Profile = Profile { submit_ns: 115, complete_ns: 2636, ..CARD_DEFAULTS };

/// The built-in profiles.
pub static PROFILES: &[Profile] = &[
    // The FreeBSD driver has a ring of this size (HIFN_D_CMD_RSIZE, 24 command descriptors).
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
    // The size of the queue is from OpenBSD's driver (UBS_MAX_NQUEUE). The setup of SHA-1 is raised to fit an outlier of Table
    // 6 within 20 %: 2.2 Mb/s at 16 bytes, between 1.5 at 8 bytes and 5.3 at 32. Without the outlier, the setup would be 5.5
    // µs, as for MD5.
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
    // 8192 bytes; the fit is within 10 %. At most 0.08 s of CPU time in 3 s, at 28426 requests per second, is 0.94 µs per
    // request.
    Profile {
        name: Cow::Borrowed("kirkwood"),
        description: Cow::Borrowed("model of the CESA engine of a Marvell Kirkwood, 1.2 GHz"),
        rates: Cow::Borrowed(&[rate(Algorithm::Aes128Cbc, 34_260, 199)]),
        ring: 64,
        submit_ns: 470,
        complete_ns: 470,
        ..CARD_DEFAULTS
    },
    // Software of the same board: 623355, 172025, 44158, 11114 and 1390 operations per second. The fit is within 1 %. The watts
    // are the power of the whole board.
    Profile {
        name: Cow::Borrowed("kirkwood-cpu"),
        description: Cow::Borrowed("model of the software of a Marvell Kirkwood, 1.2 GHz"),
        rates: Cow::Borrowed(&[rate(Algorithm::Aes128Cbc, 200, 91)]),
        is_software: true,
        power: Some(Power { idle_watts: 2.3, loaded_watts: 7.0 }),
        ..CARD_DEFAULTS
    },
    // 1551, 6126, 21528, 55995, 95027 and 99937 kB/s with 16, 64, 256, 1024, 8192 and 16384 bytes; the fit is within 8 %. The
    // 5.1 s of system time for 1.05 million requests in 6 runs of 3 s are 4.9 µs per request. The split before and after the
    // engine is unknown, so it is halved.
    Profile {
        name: Cow::Borrowed("cortex-a9"),
        description: Cow::Borrowed("model of the CESA engine of a Marvell board with Cortex-A9"),
        rates: Cow::Borrowed(&[rate(Algorithm::Aes256Cbc, 4_600, 843)]),
        ring: 64,
        submit_ns: 2_450,
        complete_ns: 2_450,
        ..CARD_DEFAULTS
    },
    // Software of the same board: 39603, 47420, 50270, 51003, 51249 and 51233 kB/s. The fit is within 1 %.
    Profile {
        name: Cow::Borrowed("cortex-a9-cpu"),
        description: Cow::Borrowed("model of the software of a Cortex-A9"),
        rates: Cow::Borrowed(&[rate(Algorithm::Aes256Cbc, 92, 410)]),
        is_software: true,
        ..CARD_DEFAULTS
    },
    // A file of 680 MB through AF_ALG: SHA-256 in 4.45 s, SHA-1 in 4.7 s. The cost of small requests is unpublished: setup and
    // CPU costs are guesses between the costs of the two boards above.
    Profile {
        name: Cow::Borrowed("amd-ccp"),
        description: Cow::Borrowed("model of the CCP of an AMD GX-212ZC; small requests are a guess"),
        rates: Cow::Borrowed(&[rate(Algorithm::Sha256, 20_000, 1222), rate(Algorithm::Sha1, 20_000, 1157)]),
        ring: 64,
        submit_ns: 1_500,
        complete_ns: 1_500,
        ..CARD_DEFAULTS
    },
    // OpenSSL on the same machine and file: 9.42 s and 4.6 s. The setup is a guess.
    Profile {
        name: Cow::Borrowed("amd-ccp-cpu"),
        description: Cow::Borrowed("model of the software of an AMD GX-212ZC; small requests are a guess"),
        rates: Cow::Borrowed(&[rate(Algorithm::Sha256, 300, 577), rate(Algorithm::Sha1, 200, 1183)]),
        is_software: true,
        ..CARD_DEFAULTS
    },
    // The report on the P4080 has curves without numbers: offloading pays off above a certain size, throughput rises with
    // threads until the engine is saturated, and large frames reach its bandwidth. The numbers here are chosen to match: four
    // units, three of which saturate the engine.
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
        ..CARD_DEFAULTS
    },
    // This rate is chosen, too: about 25 cycles per byte at 1.5 GHz.
    Profile {
        name: Cow::Borrowed("e500mc-cpu"),
        description: Cow::Borrowed("model in the shape of the software of an e500mc, 1.5 GHz; its numbers are chosen"),
        rates: Cow::Borrowed(&[rate(Algorithm::Aes128Cbc, 300, 480), rate(Algorithm::Sha256, 300, 400)]),
        is_software: true,
        ..CARD_DEFAULTS
    },
    // "Data Compression Accelerator on IBM POWER9 and z15 Processors" (ISCA 2020): 280 GB/s for the 20 accelerators of the
    // largest z15, each twice as fast as a POWER9's. The cost of small requests is unpublished: setup and CPU costs are
    // guesses.
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
        ..CARD_DEFAULTS
    },
    // Not a real engine: for tests of faults.
    Profile {
        name: Cow::Borrowed("faulty"),
        description: Cow::Borrowed("a card that fails on demand"),
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
        ..CARD_DEFAULTS
    },
];

/// Maximum nanoseconds of a setup, a submission or a completion: 10 s.
const MAX_NS: u64 = 10_000_000_000;

impl Profile {
    /// Returns the profile of this name.
    pub fn named(name: &str) -> Option<&'static Profile> {
        PROFILES.iter().find(|profile| profile.name == name)
    }

    /// Returns the nanoseconds of a unit's work on a request.
    pub(crate) fn unit_ns(rate: &Rate, bytes: usize) -> u64 {
        rate.setup_ns.saturating_add(transfer_ns(bytes, rate.megabits))
    }

    /// Checks that such an engine is possible.
    pub(crate) fn validate(&self) -> Result<(), InvalidProfile> {
        let invalid_because = |problem: &str| Err(self.invalid(problem));
        let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        if self.name.is_empty() || self.name.len() > 64 || !self.name.bytes().all(is_allowed) {
            return invalid_because("the name must have 1 to 64 characters: a-z, 0-9, '-' and '_'");
        }
        if self.rates.is_empty() {
            return invalid_because("no algorithm is given");
        }
        for (index, rate) in self.rates.iter().enumerate() {
            if self.rates[..index].iter().any(|other| other.algorithm == rate.algorithm) {
                return invalid_because(&format!("{} is given twice", rate.algorithm));
            }
            if rate.megabits == 0 {
                return invalid_because(&format!("the bandwidth of {} is 0", rate.algorithm));
            }
            if rate.setup_ns > MAX_NS {
                return invalid_because(&format!("the setup of {} takes more than 10 s", rate.algorithm));
            }
        }
        if !(1..=65_536).contains(&self.ring) {
            return invalid_because("the ring must have 1 to 65536 places");
        }
        if !(1..=1_024).contains(&self.units) {
            return invalid_because("an engine must have 1 to 1024 units");
        }
        if self.cap_megabits == Some(0) {
            return invalid_because("the cap must be more than 0");
        }
        if self.submit_ns > MAX_NS || self.complete_ns > MAX_NS {
            return invalid_because("submission or completion takes more than 10 s");
        }
        if self.jitter_percent > 1_000 {
            return invalid_because("the jitter must be at most 1000 %");
        }
        if let Some(Power { idle_watts, loaded_watts }) = self.power
            && !(0.0 <= idle_watts && idle_watts <= loaded_watts && loaded_watts.is_finite())
        {
            return invalid_because("the idle power must be at least 0, and at most the power under load");
        }
        Ok(())
    }

    pub(crate) fn invalid(&self, problem: impl std::fmt::Display) -> InvalidProfile {
        InvalidProfile(format!("the model '{}': {problem}", self.name))
    }

    /// Parses a profile of a configuration: `like=hifn7951,ring=8,sha256=2000+400`. The value of an algorithm is its setup in
    /// nanoseconds, a plus sign, and its bandwidth in megabits per second.
    ///
    /// # Errors
    /// A field does not exist or has an invalid value, or the profile is impossible.
    pub fn parse(name: &str, text: &str) -> Result<Self, InvalidProfile> {
        let mut profile = Profile { description: "model from the configuration".into(), ..CARD_DEFAULTS };
        let (changes, bases): (Vec<_>, Vec<_>) =
            text.split(',').map(str::trim).partition(|field| !field.starts_with("like="));
        for field in bases {
            let model = &field["like=".len()..];
            profile = Profile::named(model)
                .ok_or_else(|| InvalidProfile(format!("the model '{name}': there is no model '{model}' for 'like'")))?
                .clone();
        }
        profile.name = name.to_owned().into();
        for field in changes {
            let set = field.split_once('=').map(|(key, value)| profile.set_field(key, value));
            if set != Some(true) {
                return Err(profile.invalid(format!("'{field}' is not a valid field; the fields are {FIELD_HELP}")));
            }
        }
        profile.validate()?;
        Ok(profile)
    }

    fn set_field(&mut self, key: &str, value: &str) -> bool {
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

const FIELD_HELP: &str = "like=MODEL, ring=N, units=N, cap=MBIT, order=kept|any, completion=interrupt|polled, submit=NS, \
                      complete=NS, jitter=PERCENT, seed=N, power=IDLE-LOADED or ALGORITHM=SETUP_NS+MBIT";

/// Returns the nanoseconds of `bytes` at `megabits` per second.
pub(crate) fn transfer_ns(bytes: usize, megabits: u64) -> u64 {
    u64::try_from(bytes as u128 * 8_000 / u128::from(megabits)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
