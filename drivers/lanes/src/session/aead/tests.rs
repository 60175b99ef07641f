//! Compares encrypt-then-authenticate and CCM, in batches of many keys, with their definitions over primitives that have test vectors.

use gantry_core::driver::Buffers;
use gantry_core::{Algorithm, Gantry, Kind, Outcome, Request, Session, SessionParams};
use gantry_digest::internal::every_level;

use crate::aes::{Aes, BLOCK_LEN, every_aes};
use crate::cbc::{self, CbcJob, CbcKey};
use crate::groups::MAX_GROUP;
use crate::random::Random;
use crate::session::Family;
use crate::{LanesDriver, NAME};

/// The keys of a session: one for CCM, two for encrypt-then-authenticate.
struct Keys {
    key: Vec<u8>,
    mac_key: Vec<u8>,
}

/// A message, with its expected ciphertext and tag.
struct Message {
    /// The index of the session.
    session: usize,
    iv: Vec<u8>,
    aad: Vec<u8>,
    plain: Vec<u8>,
    sealed: Vec<u8>,
    tag: Vec<u8>,
}

/// Encrypts one block.
fn encrypt_block(key: &CbcKey, mut block: [u8; BLOCK_LEN]) -> [u8; BLOCK_LEN] {
    CbcJob { key, iv: [0; BLOCK_LEN], data: Buffers::InPlace(&mut block) }.run();
    block
}

/// Encrypts or decrypts in counter mode (SP 800-38A, 6.5).
fn ctr_crypt(key: &CbcKey, first: [u8; BLOCK_LEN], data: &mut [u8]) {
    for (i, chunk) in data.chunks_mut(BLOCK_LEN).enumerate() {
        let counter = u128::from_be_bytes(first).wrapping_add(i as u128).to_be_bytes();
        chunk.iter_mut().zip(encrypt_block(key, counter)).for_each(|(byte, stream)| *byte ^= stream);
    }
}

/// Seals in CCM (SP 800-38C, 6.1, with the formatting of appendix A).
fn ccm(aes: Aes, keys: &Keys, iv: &[u8], aad: &[u8], plain: &[u8], tag: usize) -> (Vec<u8>, Vec<u8>) {
    let key = CbcKey::new(aes, &keys.key).unwrap();
    let q = 15 - iv.len();
    let block = |flags: usize, number: usize| {
        let mut block = vec![flags as u8];
        block.extend(iv);
        block.extend(&(number as u64).to_be_bytes()[8 - q.min(8)..]);
        <[u8; BLOCK_LEN]>::try_from(block).unwrap()
    };
    let mut input = block(if aad.is_empty() { 0 } else { 64 } + 8 * ((tag - 2) / 2) + q - 1, plain.len()).to_vec();
    match aad.len() {
        0 => {}
        length if length < 0xff00 => input.extend((length as u16).to_be_bytes()),
        length => {
            input.extend([0xff, 0xfe]);
            input.extend((length as u32).to_be_bytes());
        }
    }
    input.extend(aad);
    input.resize(input.len().next_multiple_of(BLOCK_LEN), 0);
    input.extend(plain);
    input.resize(input.len().next_multiple_of(BLOCK_LEN), 0);
    let mut mac = CbcJob { key: &key, iv: [0; BLOCK_LEN], data: Buffers::InPlace(&mut input) }.run();
    ctr_crypt(&key, block(q - 1, 0), &mut mac);
    let mut sealed = plain.to_vec();
    ctr_crypt(&key, block(q - 1, 1), &mut sealed);
    (sealed, mac[..tag].to_vec())
}

/// Encrypts, then authenticates: tag = HMAC(aad ‖ iv ‖ ciphertext).
fn etm(
    gantry: &Gantry,
    aes: Aes,
    algorithm: Algorithm,
    keys: &Keys,
    message: (&[u8], &[u8], &[u8]),
) -> (Vec<u8>, Vec<u8>) {
    let (iv, aad, plain) = message;
    let info = algorithm.info();
    let key = CbcKey::new(aes, &keys.key).unwrap();
    let iv: [u8; BLOCK_LEN] = iv.try_into().unwrap();
    let mut sealed = plain.to_vec();
    if info.block == BLOCK_LEN {
        CbcJob { key: &key, iv, data: Buffers::InPlace(&mut sealed) }.run();
    } else {
        ctr_crypt(&key, iv, &mut sealed);
    }
    let hmac = |of: &Algorithm| of.kind() == Kind::Mac && of.info().digest == info.digest;
    let hmac = Algorithm::ALL.iter().copied().find(hmac).unwrap();
    let mut tag = vec![0; hmac.info().tag.max];
    let session = gantry.session(SessionParams::new(hmac, &keys.mac_key)).unwrap();
    session.mac(&[aad, &iv, &sealed].concat(), &mut tag).unwrap();
    (sealed, tag)
}

/// Runs batches smaller than the number of lanes and larger than a group, under one key and several, with forgeries among them.
#[test]
fn batches_of_many_keys_are_sealed_and_opened() {
    let random = Random::new(0x6165_6164);
    for level in every_level() {
        let Some(aes) = Aes::of(level) else { continue };
        let gantry = Gantry::builder().driver(&LanesDriver::new(level)).build();
        let device = gantry.device(NAME).unwrap();
        let in_groups = |a: &Algorithm| matches!(Family::of(*a), Some((Family::Ccm | Family::Etm, _)));
        let all: Vec<Algorithm> = Algorithm::ALL.iter().copied().filter(in_groups).collect();
        assert_eq!(all.len(), 27, "three key lengths of CCM, and of each pair of two ciphers and four digests");
        for algorithm in all {
            device.admit(algorithm).unwrap();
            let info = algorithm.info();
            for (key_count, count) in [(1, 1), (1, 5), (3, MAX_GROUP), (7, 2 * MAX_GROUP + 3)] {
                // Each key has its own lengths of tags and nonces, chosen among all lengths; the tags of CCM have even lengths.
                let tag = || {
                    if info.digest.is_some() { 4 + random.below(info.tag.max - 3) } else { 4 + 2 * random.below(7) }
                };
                let tags: Vec<usize> = (0..key_count).map(|_| tag()).collect();
                let keys: Vec<Keys> = (0..key_count)
                    .map(|_| Keys {
                        key: random.bytes(info.key.max),
                        mac_key: random.bytes(random.below(1 + info.mac_key.max.min(149))),
                    })
                    .collect();
                let sessions: Vec<Session> = keys
                    .iter()
                    .zip(&tags)
                    .map(|(Keys { key, mac_key }, tag)| {
                        SessionParams::new(algorithm, key).with_mac_key(mac_key).with_tag_len(*tag)
                    })
                    .map(|params| gantry.session(params).unwrap())
                    .collect();
                let messages: Vec<Message> = (0..count)
                    .map(|i| {
                        let session = random.below(key_count);
                        let iv = random.bytes(info.iv.min + random.below(info.iv.max - info.iv.min + 1));
                        let aad = random.bytes(match i % 16 {
                            0..12 => random.below(40),
                            15 if i > 60 => 0xff00 + random.below(40),
                            _ => random.below(300),
                        });
                        let plain = random.bytes(random.length() / info.block * info.block);
                        let (sealed, mut tag_of) = match info.digest {
                            Some(_) => etm(&gantry, aes, algorithm, &keys[session], (&iv, &aad, &plain)),
                            None => ccm(aes, &keys[session], &iv, &aad, &plain, tags[session]),
                        };
                        tag_of.truncate(tags[session]);
                        Message { session, iv, aad, plain, sealed, tag: tag_of }
                    })
                    .collect();
                let sessions: Vec<Session> = messages.iter().map(|message| sessions[message.session].clone()).collect();
                for in_place in [true, false] {
                    seal(&sessions, &messages, in_place);
                    open(&sessions, &messages, in_place, &random);
                }
            }
        }
    }
}

fn seal(sessions: &[Session], messages: &[Message], in_place: bool) {
    let mut output: Vec<Vec<u8>> = messages
        .iter()
        .map(|message| if in_place { message.plain.clone() } else { vec![0xee; message.plain.len()] })
        .collect();
    let mut tags: Vec<Vec<u8>> = messages.iter().map(|message| vec![0xee; message.tag.len()]).collect();
    let mut requests: Vec<Request<'_>> = messages
        .iter()
        .zip(output.iter_mut().zip(&mut tags))
        .map(|(message, (output, tag))| {
            Request::seal(&message.iv, &message.aad, buffers(&message.plain, output, in_place), tag)
        })
        .collect();
    Session::process_each(sessions, &mut requests).unwrap();
    assert!(requests.iter().all(|request| request.outcome() == Some(Outcome::Done)));
    for ((message, output), tag) in messages.iter().zip(output).zip(tags) {
        assert_eq!(output, message.sealed);
        assert_eq!(tag, message.tag);
    }
}

/// Opens the messages after flipping a bit in the tag, the nonce, the associated data or the data of some of them.
fn open(sessions: &[Session], messages: &[Message], in_place: bool, random: &Random) {
    let forged = |bytes: &[u8], is: bool| {
        let mut bytes = bytes.to_vec();
        if is && !bytes.is_empty() {
            let place = random.below(bytes.len());
            bytes[place] ^= 1 << random.below(8);
        }
        bytes
    };
    // The forged part of each message: 0 the tag, 1 the nonce, 2 the associated data, 3 the data; above 3 none.
    let forgeries: Vec<usize> = messages.iter().map(|_| random.below(8)).collect();
    let inputs: Vec<[Vec<u8>; 4]> = messages
        .iter()
        .zip(&forgeries)
        .map(|(m, which)| {
            let parts = [&m.tag, &m.iv, &m.aad, &m.sealed];
            core::array::from_fn(|i| forged(parts[i], *which == i))
        })
        .collect();
    let mut output: Vec<Vec<u8>> =
        inputs.iter().map(|[.., sealed]| if in_place { sealed.clone() } else { vec![0xee; sealed.len()] }).collect();
    let before = output.clone();
    let mut requests: Vec<Request<'_>> = inputs
        .iter()
        .zip(&mut output)
        .map(|([tag, iv, aad, sealed], output)| Request::open(iv, aad, buffers(sealed, output, in_place), tag))
        .collect();
    Session::process_each(sessions, &mut requests).unwrap();
    let outcomes: Vec<Outcome> = requests.iter().map(|request| request.outcome().unwrap()).collect();
    drop(requests);
    for (i, message) in messages.iter().enumerate() {
        let parts = [&message.tag, &message.iv, &message.aad, &message.sealed];
        if forgeries[i] < 4 && !parts[forgeries[i]].is_empty() {
            assert_eq!(outcomes[i], Outcome::BadTag, "{i}");
            assert!(output[i] == before[i] || output[i].iter().all(|byte| *byte == 0), "{i}: plaintext of a forgery");
        } else {
            assert_eq!(outcomes[i], Outcome::Done, "{i}");
            assert_eq!(output[i], message.plain);
        }
    }
}

fn buffers<'a>(input: &'a [u8], output: &'a mut [u8], in_place: bool) -> Buffers<'a> {
    if in_place { Buffers::InPlace(output) } else { Buffers::Separate { input, output } }
}

/// SP 800-38C, appendix C, examples 1 to 4.
#[test]
fn ccm_matches_sp_800_38c() {
    let bytes = |from: u8, count: usize| (0..count).map(|i| from.wrapping_add(i as u8)).collect::<Vec<u8>>();
    assert!(!every_aes().is_empty());
    for level in every_level() {
        let gantry = Gantry::builder().driver(&LanesDriver::new(level)).build();
        for (nonce, aad, plain, sealed) in [
            (7, bytes(0, 8), 4, "7162015b4dac255d"),
            (8, bytes(0, 16), 16, "d2a1f0e051ea5f62081a7792073d593d1fc64fbfaccd"),
            (12, bytes(0, 20), 24, "e3b201a9f5b71a7a9b1ceaeccd97e70b6176aad9a4428aa5484392fbc1b09951"),
            (
                13,
                bytes(0, 256).repeat(256),
                32,
                "69915dad1e84c6376a68c2967e4dab615ae0fd1faec44cc484828529463ccf72b4ac6bec93e8598e7f0dadbcea5b",
            ),
        ] {
            let sealed = cbc::tests::bytes(sealed);
            let params = SessionParams::new(Algorithm::Aes128Ccm, &bytes(0x40, 16)).with_tag_len(sealed.len() - plain);
            let session = gantry.session(params).unwrap();
            let (mut data, mut tag) = (bytes(0x20, plain), vec![0; sealed.len() - plain]);
            session.seal(&bytes(0x10, nonce), &aad, &mut data, &mut tag).unwrap();
            assert_eq!([&data[..], &tag].concat(), sealed);
            session.open(&bytes(0x10, nonce), &aad, &mut data, &tag).unwrap();
            assert_eq!(data, bytes(0x20, plain));
        }
    }
}
