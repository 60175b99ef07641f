//! Random ioctls without a kernel: whatever a program passes, a plan ends, reads no more than it said, and a task gives as
//! many bytes as its plan has room for.

use std::collections::HashMap;
use std::sync::Arc;

use gantry_abi_cryptodev::{Ioctl, Width};

use crate::fuse;
use crate::plan::{Action, Call, Plan, Sessions, plan, total};
use crate::session::{Maker, Shape, State};
use crate::task::{Task, side_by_side};

struct Table(HashMap<u32, Arc<Shape>>);

impl Sessions for Table {
    fn shape(&self, session: u32) -> Option<&Shape> {
        self.0.get(&session).map(|shape| &**shape)
    }
}

struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 24
    }

    fn pick(&mut self, from: &[u32]) -> u32 {
        from[self.next() as usize % from.len()]
    }

    /// Words that often mean something.
    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let word = |noise: &mut Noise| match noise.next() % 5 {
            0 => noise.next() as u32,
            1 => noise.pick(&[0, 1, 2, 12, 13, 15, 16, 17, 20, 24, 31, 32, 64, 65, 100, 256, 512, 4096]),
            2 => noise.pick(&[0, 1 << 4, 1 << 5, 1 << 16, 1 << 18, 1 << 20, 3 << 16, 1 << 22]),
            3 => noise.next() as u32 % 24,
            _ => 0,
        };
        let mut bytes: Vec<u8> =
            std::iter::repeat_with(|| word(self)).take(length / 4 + 1).flat_map(u32::to_ne_bytes).collect();
        bytes.truncate(length);
        bytes
    }
}

#[test]
fn every_plan_ends_and_every_task_gives_what_was_planned() {
    let gantry = gantry_runtime::open(gantry_runtime::Config::default()).unwrap();
    let mut maker = Maker::new(gantry);
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
        if let Some(shape) = maker.make(cipher, &key[..key_bytes], mac, &key[..20]) {
            table.0.insert(number as u32, Arc::new(shape));
        }
    }
    let mut noise = Noise(1);
    let (mut answers, mut tasks) = (0, Vec::new());
    for _ in 0..30_000 {
        let ioctl = Ioctl::ALL[noise.next() as usize % Ioctl::ALL.len()];
        let width = if noise.next().is_multiple_of(2) { Width::W64 } else { Width::W32 };
        let call = Call { ioctl, width, address: 0x1000 };
        let mut got = Vec::new();
        let (action, outputs) = loop {
            let wanted = match plan(call, &table, &got) {
                Plan::Fail(_) => break (None, Vec::new()),
                Plan::Ready { action, outputs, .. } => break (Some(action), outputs),
                Plan::Read(wanted) => total(&wanted),
            };
            assert!(wanted > got.len(), "{call:?} asks for what it has");
            if wanted > 1 << 20 {
                break (None, Vec::new());
            }
            got.extend(noise.bytes(wanted - got.len()));
        };
        match action {
            Some(Action::Crypt(job)) => {
                let shape = table.0[&job.session].clone();
                tasks.push((Task::new(shape, State::new(), job, got.into()), total(&outputs)));
            }
            Some(Action::Open { op, key, mac_key }) => {
                answers += usize::from(maker.make(op.cipher, &got[key], op.mac, &got[mac_key]).is_some());
            }
            _ => {}
        }
        if tasks.len() == 20 {
            side_by_side(tasks.iter_mut().map(|(task, _)| task));
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
fn no_message_of_the_kernel_is_too_odd_to_be_read() {
    let mut noise = Noise(2);
    for _ in 0..100_000 {
        let length = noise.next() as usize % 120;
        let bytes = noise.bytes(length);
        if let Some((_, fuse::Message::Ioctl(ioctl))) = fuse::parse(&bytes) {
            assert!(ioctl.input.len() <= length);
        }
    }
}
