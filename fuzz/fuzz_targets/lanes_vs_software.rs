//! Batches and streams of any lengths and splits: the lanes of every CPU level compute the results of the reference.

#![no_main]

use std::sync::LazyLock;

use arbitrary::Arbitrary;
use gantry_core::driver::{Buffers, Capability, Driver};
use gantry_core::{Gantry, Kind, Lengths, Operation, Outcome, Request, Session, SessionParams};
use gantry_driver_lanes::{LanesDriver, Level, LevelName};
use gantry_driver_software::SoftwareDriver;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    level: u8,
    algorithm: u8,
    key: u8,
    decrypt: bool,
    seed: u64,
    messages: Vec<Message>,
}

#[derive(Arbitrary, Debug)]
struct Message {
    bytes: u16,
    /// The lengths of the chunks. The last chunk has the rest.
    cuts: Vec<u16>,
}

/// More messages are only slower, and add no case.
const MAX_MESSAGES: usize = 80;

/// Frameworks by CPU level; if the CPU lacks a level, the next lower one is used again.
static LANES: LazyLock<[Gantry; LevelName::ALL.len()]> =
    LazyLock::new(|| LevelName::ALL.map(|level| single_device(&LanesDriver::new(Level::detect_at_most(Some(level))))));
static SOFTWARE: LazyLock<Gantry> = LazyLock::new(|| single_device(&SoftwareDriver));
fn single_device(driver: &dyn Driver) -> Gantry {
    Gantry::builder().driver(driver).build()
}

fuzz_target!(|input: Input| {
    let mut input = input;
    input.messages.truncate(MAX_MESSAGES);
    let gantry = &LANES[usize::from(input.level) % LANES.len()];
    // Algorithms that the reference lacks (AES-128-XTS) cannot be compared.
    let comparable = |capability: &&Capability| SOFTWARE.devices()[0].capability(capability.algorithm).is_some();
    let offered: Vec<&Capability> = gantry.devices()[0].capabilities().iter().filter(comparable).collect();
    if offered.is_empty() {
        return;
    }
    let capability = offered[usize::from(input.algorithm) % offered.len()];
    let algorithm = capability.algorithm;
    let info = algorithm.info();
    let mut random = Random(input.seed);
    let key = random.bytes(length(info.key, input.key));
    let params = SessionParams::new(algorithm, &key)
        .with_mac_key(&random.bytes(length(info.mac_key, input.key)))
        .with_any_nonce();
    let lanes = gantry.session(params.clone()).unwrap();
    let software = SOFTWARE.session(params).unwrap();

    let block = if matches!(info.kind, Kind::Digest | Kind::Mac) { 1 } else { info.block };
    let lengths = input.messages.iter().map(|message| usize::from(message.bytes) / block * block);
    let data: Vec<Vec<u8>> = lengths.map(|bytes| random.bytes(bytes.max(info.min_data))).collect();

    match info.kind {
        Kind::Digest | Kind::Mac => {
            let expected = tags(&software, &data);
            assert_eq!(tags(&lanes, &data), expected, "{algorithm} in a batch");
            assert_eq!(tags_by_streams(&lanes, &data, &input.messages), expected, "{algorithm} in streams");
        }
        Kind::Cipher => {
            let operation = if input.decrypt { Operation::Decrypt } else { Operation::Encrypt };
            if capability.operations.contains(&operation) {
                let ivs: Vec<Vec<u8>> = data.iter().map(|_| random.bytes(info.iv.min)).collect();
                let expected = cipher_all(&software, operation, &ivs, &data);
                assert_eq!(cipher_all(&lanes, operation, &ivs, &data), expected, "{algorithm}");
            }
        }
        Kind::Aead => {
            let mut sealed = Vec::new();
            for (data, message) in data.iter().zip(&input.messages) {
                // GCM hashes nonces of other lengths than 12 bytes.
                let twelve = input.key < 128 && info.iv.allows(12);
                let nonce = random.bytes(if twelve { 12 } else { length(software.params().iv_lengths(), input.key) });
                let aad = random.bytes(usize::from(message.bytes % 190));
                let (mut cipher, mut tag) = (data.clone(), vec![0; info.tag.max]);
                software.seal(&nonce, &aad, &mut cipher, &mut tag).unwrap();
                let (mut whole, mut made) = (data.clone(), vec![0; tag.len()]);
                lanes.seal(&nonce, &aad, &mut whole, &mut made).unwrap();
                assert_eq!((&whole, &made), (&cipher, &tag), "{algorithm}");
                lanes.open(&nonce, &aad, &mut whole, &tag).unwrap();
                assert_eq!(whole, *data, "{algorithm}, opened");
                if capability.streaming {
                    check_in_pieces(&lanes, (&nonce, &aad), (data, &cipher, &tag), &message.cuts);
                }
                sealed.push(Sealed { nonce, aad, cipher, tag });
            }
            check_sealed_in_batches(&lanes, &data, &sealed, usize::from(input.key));
        }
        kind => unreachable!("the lanes offer no {kind}"),
    }
});

fn tags(session: &Session, data: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let algorithm = session.params().algorithm();
    let mut tags = vec![vec![0; algorithm.info().default_tag_length()]; data.len()];
    let mut requests: Vec<_> = (data.iter().zip(&mut tags))
        .map(|(data, tag)| match algorithm.kind() {
            Kind::Digest => Request::digest(data, tag),
            _ => Request::mac(data, tag),
        })
        .collect();
    session.process(&mut requests).unwrap();
    tags
}

/// Feeds all streams side by side: each round has the next chunk of every stream that has any left.
fn tags_by_streams(session: &Session, data: &[Vec<u8>], messages: &[Message]) -> Vec<Vec<u8>> {
    let mut streams: Vec<_> = data.iter().map(|_| session.stream(data.len()).unwrap()).collect();
    let mut pieces: Vec<_> = data.iter().zip(messages).map(|(data, message)| split(data, &message.cuts)).collect();
    loop {
        let mut requests: Vec<_> = (streams.iter_mut().zip(&mut pieces))
            .filter_map(|(stream, pieces)| Some(Request::update(stream, pieces.next()?)))
            .collect();
        if requests.is_empty() {
            break;
        }
        session.process(&mut requests).unwrap();
    }
    let mut tags = vec![vec![0; session.params().algorithm().info().default_tag_length()]; data.len()];
    let mut requests: Vec<_> =
        streams.iter_mut().zip(&mut tags).map(|(stream, tag)| Request::finish(stream, tag)).collect();
    session.process(&mut requests).unwrap();
    tags
}

fn split<'a>(mut data: &'a [u8], cuts: &'a [u16]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    // The last chunk has the rest.
    let cuts = cuts.iter().map(|&cut| usize::from(cut)).chain([usize::MAX]);
    cuts.map(move |cut| {
        let piece;
        (piece, data) = data.split_at(cut.min(data.len()));
        piece
    })
}

/// An AEAD message, as sealed by the reference.
struct Sealed {
    nonce: Vec<u8>,
    aad: Vec<u8>,
    cipher: Vec<u8>,
    tag: Vec<u8>,
}

fn check_in_pieces(session: &Session, (nonce, aad): (&[u8], &[u8]), message: (&[u8], &[u8], &[u8]), cuts: &[u16]) {
    let (data, cipher, tag) = message;
    for operation in [Operation::Seal, Operation::Open] {
        let (from, to) = if operation == Operation::Seal { (data, cipher) } else { (cipher, data) };
        let mut stream = session.aead_stream(operation).unwrap();
        stream.begin(nonce, aad).unwrap();
        let mut output = Vec::new();
        for piece in split(from, cuts) {
            let mut place = vec![0; piece.len()];
            stream.update((piece, &mut place[..])).unwrap();
            output.extend(place);
        }
        assert_eq!(output, to, "in pieces");
        if operation == Operation::Seal {
            let mut made = vec![0; tag.len()];
            stream.seal(&mut made).unwrap();
            assert_eq!(made, tag, "in pieces");
        } else {
            stream.open(tag).unwrap();
        }
    }
}

/// Seals and then opens all messages as batches, every third one with a wrong bit in its tag.
fn check_sealed_in_batches(session: &Session, data: &[Vec<u8>], sealed: &[Sealed], wrong: usize) {
    let mut output = data.to_vec();
    let mut tags: Vec<Vec<u8>> = sealed.iter().map(|message| vec![0; message.tag.len()]).collect();
    let mut requests: Vec<Request<'_>> = (sealed.iter().zip(output.iter_mut().zip(&mut tags)))
        .map(|(message, (data, tag))| Request::seal(&message.nonce, &message.aad, data, tag))
        .collect();
    session.process(&mut requests).unwrap();
    drop(requests);
    for (message, (cipher, tag)) in sealed.iter().zip(output.iter().zip(&mut tags)) {
        assert_eq!((cipher, &*tag), (&message.cipher, &message.tag), "sealed in a batch");
    }
    for tag in tags.iter_mut().step_by(3) {
        let place = wrong % tag.len();
        tag[place] ^= 1 << (wrong % 8);
    }
    let mut requests: Vec<Request<'_>> = (sealed.iter().zip(output.iter_mut().zip(&tags)))
        .map(|(message, (data, tag))| Request::open(&message.nonce, &message.aad, data, tag))
        .collect();
    session.process(&mut requests).unwrap();
    let outcomes: Vec<_> = requests.iter().map(|request| request.outcome()).collect();
    drop(requests);
    for (i, output) in output.iter().enumerate() {
        if i % 3 == 0 {
            assert_eq!(outcomes[i], Some(Outcome::BadTag), "a forgery in a batch");
            assert!(*output == sealed[i].cipher || output.iter().all(|byte| *byte == 0), "a forgery in a batch");
        } else {
            assert_eq!((outcomes[i], output), (Some(Outcome::Done), &data[i]), "opened in a batch");
        }
    }
}

/// Processes every second message in place.
fn cipher_all(session: &Session, operation: Operation, ivs: &[Vec<u8>], data: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut outputs: Vec<Vec<u8>> =
        data.iter().enumerate().map(|(i, data)| if i % 2 == 0 { data.clone() } else { vec![0; data.len()] }).collect();
    let request = match operation {
        Operation::Encrypt => Request::encrypt,
        _ => Request::decrypt,
    };
    let mut requests: Vec<Request<'_>> = (outputs.iter_mut().zip(ivs).zip(data).enumerate())
        .map(|(i, ((output, iv), input))| {
            let output = output.as_mut_slice();
            let buffers = if i % 2 == 0 { Buffers::from(output) } else { Buffers::from((input.as_slice(), output)) };
            request(iv, buffers)
        })
        .collect();
    session.process(&mut requests).unwrap();
    drop(requests);
    outputs
}

/// Chooses one of the allowed lengths, limited to moderate ones.
fn length(lengths: Lengths, choice: u8) -> usize {
    let most = lengths.max.min(200);
    let choices = (most - lengths.min) / lengths.step + 1;
    lengths.min + usize::from(choice) % choices * lengths.step
}

/// Marsaglia's xorshift: pseudorandom data from a few bytes of input.
struct Random(u64);

impl Random {
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count)
            .map(|_| {
                self.0 = self.0.max(1);
                self.0 ^= self.0 << 13;
                self.0 ^= self.0 >> 7;
                self.0 ^= self.0 << 17;
                (self.0 >> 32) as u8
            })
            .collect()
    }
}
