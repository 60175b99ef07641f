//! Random ioctls without a kernel. For any arguments, a plan ends and reads no more than it announced, and a task returns
//! as many bytes as the plan has room for.

use std::collections::HashMap;
use std::sync::Arc;

use gantry_abi_cryptodev::{Ioctl, Width};

use crate::fuse;
use crate::plan::{Action, Call, Plan, Sessions, plan, total_bytes};
use crate::session::{CryptoSession, SessionFactory, SessionState};
use crate::task::{Task, run_tasks};

struct Table(HashMap<u32, Arc<CryptoSession>>);

impl Sessions for Table {
    fn crypto_session(&self, session: u32) -> Option<&CryptoSession> {
        self.0.get(&session).map(|crypto| &**crypto)
    }
}

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 24
    }

    fn pick(&mut self, from: &[u32]) -> u32 {
        from[self.next() as usize % from.len()]
    }

    /// Generates words that are often meaningful.
    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let word = |rng: &mut Rng| match rng.next() % 5 {
            0 => rng.next() as u32,
            1 => rng.pick(&[0, 1, 2, 12, 13, 15, 16, 17, 20, 24, 31, 32, 64, 65, 100, 256, 512, 4096]),
            2 => rng.pick(&[0, 1 << 4, 1 << 5, 1 << 16, 1 << 18, 1 << 20, 3 << 16, 1 << 22]),
            3 => rng.next() as u32 % 24,
            _ => 0,
        };
        let mut bytes: Vec<u8> =
            std::iter::repeat_with(|| word(self)).take(length / 4 + 1).flat_map(u32::to_ne_bytes).collect();
        bytes.truncate(length);
        bytes
    }
}

#[test]
fn every_plan_terminates_and_every_task_fills_its_outputs() {
    let gantry = gantry_runtime::open(gantry_runtime::Config::default()).unwrap();
    let mut factory = SessionFactory::new(gantry);
    let mut table = Table(HashMap::new());
    let key: Vec<u8> = (0..64).collect();
    for (number, (cipher, key_bytes, mac)) in [
        (11, 16, 0),
        (11, 32, 7),
        (21, 16, 18),
        (21, 24, 0),
        (24, 16, 0),
        (25, 32, 0),
        (23, 16, 0),
        (2, 24, 0),
        (50, 16, 0),
        (51, 16, 0),
        (22, 64, 0),
        (16, 0, 7),
        (0, 0, 14),
        (0, 0, 104),
        (0, 0, 7),
        (0, 0, 104),
        (25, 16, 7),
        (11, 16, 18),
    ]
    .into_iter()
    .enumerate()
    {
        if let Some(crypto) = factory.create_session(cipher, &key[..key_bytes], mac, &key[..20]) {
            table.0.insert(number as u32, Arc::new(crypto));
        }
    }
    let mut rng = Rng(1);
    let (mut answers, mut tasks) = (0, Vec::new());
    for _ in 0..30_000 {
        let ioctl = Ioctl::ALL[rng.next() as usize % Ioctl::ALL.len()];
        let width = if rng.next().is_multiple_of(2) { Width::W64 } else { Width::W32 };
        let call = Call { ioctl, width, address: 0x1000 };
        let mut input_bytes = Vec::new();
        let (action, outputs) = loop {
            let requested = match plan(call, &table, &input_bytes) {
                Plan::Fail(_) => break (None, Vec::new()),
                Plan::Ready { action, outputs, .. } => break (Some(action), outputs),
                Plan::Read(requested) => total_bytes(&requested),
            };
            assert!(requested > input_bytes.len(), "{call:?} requests no further bytes");
            if requested > 1 << 20 {
                break (None, Vec::new());
            }
            input_bytes.extend(rng.bytes(requested - input_bytes.len()));
        };
        match action {
            Some(Action::Crypt(job)) => {
                let crypto = table.0[&job.session].clone();
                tasks.push((Task::new(crypto, SessionState::new(), job, input_bytes.into()), total_bytes(&outputs)));
            }
            Some(Action::Open { op, key, mac_key }) => {
                answers += usize::from(
                    factory.create_session(op.cipher, &input_bytes[key], op.mac, &input_bytes[mac_key]).is_some(),
                );
            }
            _ => {}
        }
        if tasks.len() == 20 {
            run_tasks(tasks.iter_mut().map(|(task, _)| task));
            for (task, room) in tasks.drain(..) {
                if let Ok(parts) = task.result() {
                    assert_eq!(parts.iter().map(|part| part.len()).sum::<usize>(), room);
                    answers += 1;
                }
            }
        }
    }
    assert!(answers > 100, "{answers}");
}

#[test]
fn no_random_message_breaks_the_parser() {
    let mut rng = Rng(2);
    for _ in 0..100_000 {
        let length = rng.next() as usize % 120;
        let bytes = rng.bytes(length);
        if let Some((_, fuse::Message::Ioctl(ioctl))) = fuse::parse(&bytes) {
            assert!(ioctl.input.len() <= length);
        }
    }
}
